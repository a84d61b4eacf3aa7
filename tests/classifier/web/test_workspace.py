from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import colours, noise_png

from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import Workspace


class WaitingReader(UploadReader):
    """Reads only when two uploads are being read at the same time."""

    def __init__(self):
        super().__init__(colours, side=8)
        self.both = threading.Barrier(2, timeout=20)

    def read(self, name, data, limits):
        self.both.wait()
        return super().read(name, data, limits)


def test_the_limit_of_photos_holds_for_uploads_at_the_same_time():
    workspace = Workspace(WaitingReader(), Limits(pictures=1))
    with ThreadPoolExecutor(2) as threads:
        uploads = [
            threads.submit(workspace.add_photo, "a.png", noise_png(0, i), POOL) for i in range(2)
        ]
    errors = [upload.exception() for upload in uploads]
    assert errors.count(None) == 1
    assert sum(isinstance(error, RequestRefused) for error in errors) == 1
    assert len(workspace.pool) == 1


def test_a_class_that_was_removed_during_an_upload_gets_no_photo():
    reader = WaitingReader()
    workspace = Workspace(reader, Limits())
    workspace.add_class("red")
    (key,) = workspace.groups
    with ThreadPoolExecutor(1) as threads:
        upload = threads.submit(workspace.add_photo, "a.png", noise_png(0, 0), key)
        while not reader.both.n_waiting:
            assert not upload.done()
        workspace.remove_class(key)
        reader.both.wait()
        with pytest.raises(RequestRefused, match="class"):
            upload.result()


@pytest.fixture
def workspace(reader) -> Workspace:
    return Workspace(reader, Limits(name=5, classes=2))


def test_a_photo_stays_where_it_is_if_its_target_does_not_exist(workspace):
    workspace.add_photo("a.png", noise_png(0, 0), POOL)
    (key,) = workspace.pool
    with pytest.raises(RequestRefused, match="class"):
        workspace.move_photos([key], "gone")
    assert list(workspace.pool) == [key]


def test_names_and_classes_up_to_the_limit_are_accepted(workspace):
    for name in ("green", "blue"):
        workspace.add_class(name)
    with pytest.raises(RequestRefused, match="2 classes"):
        workspace.add_class("red")
    key = list(workspace.groups)[1]
    with pytest.raises(RequestRefused, match="6"):
        workspace.rename_class(key, "yellow")
    with pytest.raises(RequestRefused, match="GREEN"):
        workspace.rename_class(key, "GREEN")


def test_every_change_reaches_the_state(workspace):
    """The state is computed again after each change."""
    assert workspace.state()["classes"] == []
    workspace.add_class("red")
    (key,) = workspace.groups
    assert workspace.state()["classes"][0]["name"] == "red"
    workspace.rename_class(key, "blue")
    assert workspace.state()["classes"][0]["name"] == "blue"
    for number in range(3):
        workspace.add_photo("a.png", noise_png(0, number), key)
        assert workspace.state()["classes"][0]["used"] == number + 1
    for count in (1, 2):
        workspace.use_photos(key, count)
        assert workspace.state()["classes"][0]["used"] == count
    photos = list(workspace.groups[key].photos)
    workspace.move_photos([photos[0]], POOL)  # two are left, both used
    assert workspace.groups[key].used is None
    assert [row["id"] for row in workspace.state()["pool"]] == photos[:1]
    workspace.remove_photos([photos[0]])
    assert workspace.state()["pool"] == []
    workspace.remove_class(key)
    assert workspace.state()["classes"] == []


def test_an_upload_that_would_not_fit_is_not_read(reader, monkeypatch):
    monkeypatch.setattr(reader, "read", None)
    with pytest.raises(RequestRefused, match="0 photos"):
        Workspace(reader, Limits(pictures=0)).add_photo("a.png", b"", POOL)
