from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import colours, noise_png

from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import POOL, Workspace


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
