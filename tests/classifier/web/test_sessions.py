from __future__ import annotations

import pytest

from anyshot.classifier.web.limits import Limits, Refused
from anyshot.classifier.web.sessions import Sessions


def test_visitors_are_forgotten_after_lying_idle_and_not_before(darkroom):
    time = [0.0]
    visitors = Sessions(darkroom, Limits(visitors=2, idle_hours=1), clock=lambda: time[0])
    (first, workspace), (second, _) = visitors.enter(), visitors.enter()
    time[0] = 3000
    assert visitors.find(first) is workspace  # and is awake again
    with pytest.raises(Refused, match="2 visitors"):
        visitors.enter()
    time[0] = 3601
    assert visitors.find(second) is None
    assert visitors.find(first) is workspace
    visitors.enter()  # there is room again
    visitors.leave(first)
    assert visitors.find(first) is None
