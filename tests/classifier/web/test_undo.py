"""Undo and redo, and how long photos that undoing brings back are kept."""

from __future__ import annotations

import gc

import pytest
from support import noise_png

from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.memory import PhotoMemory
from anyshot.classifier.web.workspace import STEPS, Workspace


@pytest.fixture
def workspace(reader):
    """Two classes, and three photos without a class."""
    workspace = Workspace(reader, Limits(pictures=6))
    workspace.add_class("red")
    workspace.add_class("green")
    for i in range(3):
        workspace.add_photo(f"{i}.png", noise_png(0, i), POOL, "one drop")
    return workspace


CHANGES = {
    "add a class": lambda w, red: w.add_class("blue"),
    "rename": lambda w, red: w.rename_class(red, "dark red"),
    "remove a class": lambda w, red: w.remove_class(red),
    "move": lambda w, red: w.move_photos(w.pool[:2], red),
    "remove": lambda w, red: w.remove_photos(w.pool[:2]),
    "project": lambda w, red: w.start_project(["x", "y"], True, 0.5, "p"),
    "prior": lambda w, red: w.choose_prior(True),
    "threshold": lambda w, red: w.choose_threshold(0.9),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_undo_restores_everything_and_redo_makes_the_change_again(workspace, change):
    before = workspace.now
    change(workspace, next(iter(workspace.groups)))
    after = workspace.now
    assert after != before
    workspace.undo()
    assert workspace.now == before
    workspace.redo()
    assert workspace.now == after


def test_the_photos_of_one_drop_are_undone_together(workspace):
    workspace.undo()
    assert workspace.pool == ()
    workspace.redo()
    assert len(workspace.pool) == 3


def test_the_positions_of_a_slider_are_undone_together(workspace):
    red = next(iter(workspace.groups))
    workspace.move_photos(workspace.pool, red)
    for count in (2, 1):
        workspace.use_photos(red, count)
    workspace.undo()
    assert workspace.groups[red].used is None


def test_a_new_change_ends_redoing(workspace):
    workspace.undo()
    assert workspace.state()["redo"] == "add photos"
    workspace.add_class("blue")
    assert workspace.state()["redo"] == ""
    with pytest.raises(RequestRefused, match="nothing to redo"):
        workspace.redo()
    assert len(workspace.photos) == 0  # nothing can bring them back


def test_only_the_last_changes_can_be_undone(workspace):
    workspace.remove_photos(workspace.pool)
    assert len(workspace.photos) == 3
    for i in range(STEPS):
        workspace.rename_class(next(iter(workspace.groups)), f"red {i}")
    assert len(workspace.photos) == 0
    for _ in range(STEPS):
        workspace.undo()
    with pytest.raises(RequestRefused, match="nothing to undo"):
        workspace.undo()


def test_removed_photos_make_room_for_new_ones(workspace):
    workspace.remove_photos(workspace.pool)
    for i in range(6):  # as many as the page takes
        workspace.add_photo("new.png", noise_png(0, 10 + i), POOL, "two")
    assert len(workspace.pool) == len(workspace.photos) == 6
    with pytest.raises(RequestRefused, match="There are 6"):
        workspace.add_photo("new.png", noise_png(0, 20), POOL)
    workspace.undo()  # the refused photo has not ended this
    assert workspace.pool == ()


def test_a_removed_photo_is_not_shown(busy):
    photo = busy.state()["pool"][0]["id"]
    busy.remove(photo).raise_for_status()
    assert busy.get(f"/api/pictures/{photo}").status_code == 404
    assert busy.post("/api/undo").json()["undo"] == "add photos"
    assert busy.get(f"/api/pictures/{photo}").status_code == 200


def test_the_memory_of_all_visitors_is_limited(reader):
    limits = Limits(photo_megabytes=1)
    memory = PhotoMemory(limits)
    one, other = (Workspace(reader, limits, memory) for _ in range(2))
    file = noise_png(0, 0, side=350)
    one.add_photo("a.png", file, POOL)
    assert memory.held == sum(photo.size for photo in one.photos.values()) > len(file)
    other.add_photo("a.png", file, POOL)
    with pytest.raises(RequestRefused, match="MB"):
        other.add_photo("b.png", file, POOL)
    del one
    gc.collect()
    other.add_photo("b.png", file, POOL)
    assert len(other.pool) == 2
