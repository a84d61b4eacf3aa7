from __future__ import annotations

import pytest

from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.sessions import Sessions
from anyshot.classifier.web.workspace import Workspace


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def sessions(clock):
    return Sessions(Limits(visitors=2, idle_hours=2), clock=lambda: clock[0])


def new_workspace(reader):
    return Workspace(reader, Limits())


def test_too_many_visitors_are_refused(sessions, reader):
    for _ in range(2):
        sessions.add(new_workspace(reader))
    with pytest.raises(RequestRefused, match="2 visitors") as refused:
        sessions.add(new_workspace(reader))
    assert refused.value.status == 503


def test_a_session_is_forgotten_two_hours_after_its_last_request(sessions, reader, clock):
    first = sessions.add(workspace := new_workspace(reader))
    second = sessions.add(new_workspace(reader))
    clock[0] = 6000
    assert sessions.find(first) is workspace
    clock[0] = 7201
    assert sessions.find(second) is None
    assert sessions.find(first) is workspace
    sessions.add(new_workspace(reader))


def test_a_removed_session_is_forgotten(sessions, reader):
    secret = sessions.add(new_workspace(reader))
    sessions.remove(secret)
    assert sessions.find(secret) is None


def test_an_idle_visitor_makes_room_for_a_new_one(sessions, reader, clock):
    for _ in range(2):
        sessions.add(new_workspace(reader))
    clock[0] = 7200
    with pytest.raises(RequestRefused):
        sessions.check_room()
    clock[0] = 7201
    sessions.check_room()
    sessions.add(new_workspace(reader))
    assert len(sessions.sessions) == 1
