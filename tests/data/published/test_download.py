from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from anyshot.core.errors import DataError
from anyshot.data.published import CATALOGUE, RemoteFile, prepare
from anyshot.data.published.download import fetch

DATA = bytes(range(256)) * 4000


class Handler(BaseHTTPRequestHandler):
    """Serves DATA, or files of a dictionary; can ignore ranges or break off."""

    files: dict[str, bytes]
    ranges, breaks_after = True, None
    requests: list[str | None]

    def do_GET(self):
        server = self.server
        data = server.files.get(self.path)
        server.requests.append(self.headers.get("Range"))
        if data is None:
            return self.send_error(404)
        start, stop = 0, len(data)
        if server.ranges and (requested := self.headers.get("Range")):
            first, _, last = requested.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(int(last) + 1 if last else stop, stop)
            if start >= len(data):
                return self.send_error(416)
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        self.wfile.write(
            data[start:stop]
            if server.breaks_after is None
            else data[start : start + server.breaks_after]
        )

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.requests, server.ranges, server.breaks_after = (
            {"/set.bin": DATA},
            [],
            True,
            None,
        )
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def remote(server, **facts) -> RemoteFile:
    return RemoteFile(f"{server.address}/set.bin", **facts)


def test_a_file_is_fetched_verified_and_not_fetched_again(server, tmp_path):
    official = remote(server, md5=hashlib.md5(DATA).hexdigest())
    path = fetch(official, tmp_path / "deep" / "down")
    assert path.read_bytes() == DATA
    assert fetch(official, tmp_path / "deep" / "down") == path
    assert server.requests == [None]


def test_a_broken_download_resumes_where_it_broke(server, tmp_path):
    server.breaks_after = 300_000
    with pytest.raises(
        DataError, match=r"broke after 300000 of 1024000 bytes.*Try again to resume"
    ):
        fetch(remote(server), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["set.bin.part"]
    server.breaks_after = None
    assert fetch(remote(server), tmp_path).read_bytes() == DATA
    assert server.requests == [None, "bytes=300000-"]


def test_server_without_ranges_sends_the_whole_file(server, tmp_path):
    (tmp_path / "set.bin.part").write_bytes(b"stale" * 10)
    server.ranges = False
    assert fetch(remote(server), tmp_path).read_bytes() == DATA


def test_complete_partial_download_is_used(server, tmp_path):
    (tmp_path / "set.bin.part").write_bytes(DATA)
    assert fetch(remote(server, md5=hashlib.md5(DATA).hexdigest()), tmp_path).read_bytes() == DATA


def test_only_the_first_bytes_are_fetched_where_they_suffice(server, tmp_path):
    assert fetch(remote(server, first_bytes=1000), tmp_path).read_bytes() == DATA[:1000]
    assert server.requests == ["bytes=0-999"]
    server.ranges = False
    assert fetch(remote(server, first_bytes=1000), tmp_path / "other").read_bytes() == DATA[:1000]
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "set.bin.part").write_bytes(DATA[:1000])
    assert fetch(remote(server, first_bytes=1000), tmp_path / "third").read_bytes() == DATA[:1000]


def test_wrong_checksum_is_reported_and_the_file_deleted(server, tmp_path):
    with pytest.raises(DataError, match="not the published 0123; it was deleted"):
        fetch(remote(server, md5="0123"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/set.bin", "http://name.invalid/set.bin"])
def test_without_a_network_the_message_names_file_and_folder(address, tmp_path):
    with pytest.raises(DataError) as caught:
        fetch(RemoteFile(address), tmp_path)
    sentence = str(caught.value)
    assert address in sentence
    assert f"put it into {tmp_path} or give it with --source" in sentence


def test_a_missing_page_is_named(server, tmp_path):
    with pytest.raises(DataError, match="Not Found"):
        fetch(RemoteFile(f"{server.address}/gone"), tmp_path)


def test_preparing_without_a_source_downloads_the_official_files(server, official, tmp_path, cache):
    import dataclasses

    official["fashion-mnist"](tmp_path)
    names = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    server.files = {f"/{name}": (tmp_path / name).read_bytes() for name in names}
    remotes = tuple(RemoteFile(f"{server.address}/{name}") for name in names)
    images = prepare(dataclasses.replace(CATALOGUE["fashion-mnist"], remotes=remotes))
    assert len(images) == 30
    assert sorted(path.name for path in (cache / "downloads" / "fashion-mnist").iterdir()) == list(
        names
    )


def test_a_file_name_is_the_end_of_its_address():
    assert (
        RemoteFile("https://example.org/a/The%20Eiffel%20Tower.npy?download=1").file
        == "The Eiffel Tower.npy"
    )
