from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import tarfile
import zipfile

import numpy as np
import pytest
from support import limited_files

from anyshot.core.errors import AnyshotError, DataError
from anyshot.data.published import archives as archives_module
from anyshot.data.published.archives import SourceFiles, archive_kind, scan_source, unpack

WANTED = ("*.jpg",)


def tar_bytes(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_bytes(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def zip_link() -> bytes:
    info = zipfile.ZipInfo("link.jpg")
    info.external_attr = 0o120777 << 16
    return zip_bytes((info, b"/etc/passwd"))


def encrypted_zip() -> bytes:
    data = bytearray(zip_bytes(("a.jpg", b"secret")))
    data[6] |= 1  # the flag in the local header
    data[data.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    return bytes(data)


def forged_header() -> bytes:
    """A tar whose first header claims a comment of eight gigabytes; a hundred bytes when packed."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 8 * 2**30 - 1
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"]
)
def test_matching_files_are_unpacked_whatever_the_archive_is_called(pack, tmp_path):
    data = tar_bytes(("set/a.jpg", b"one"), ("set/deep/B.JPG", b"two"), ("set/readme.txt", b"no"))
    (tmp_path / "download (1)").write_bytes(pack(data))
    tree, archives = scan_source(tmp_path, WANTED)
    assert tree == SourceFiles(())
    assert archives == [tmp_path / "download (1)"]
    seen = []
    taken = unpack(archives[0], WANTED, tmp_path / "out", lambda: seen.append(1))
    assert [path.read_bytes() for path in taken.find_all("*")] == [b"one", b"two"]
    assert taken.find_first("b.*").relative_to(tmp_path / "out").as_posix() == "set/deep/B.JPG"
    assert taken.find_first("*.txt") is None
    assert len(seen) == 2


def test_matching_files_are_unpacked_from_a_zip(tmp_path):
    (tmp_path / "x").write_bytes(zip_bytes(("d/", b""), ("d/a.jpg", b"one"), ("d/b.txt", b"two")))
    assert [path.name for path in unpack(tmp_path / "x", WANTED, tmp_path / "out").files] == [
        "a.jpg"
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tar_bytes(("../out.jpg", b"x")), "outside"),
        (tar_bytes(("a/../../out.jpg", b"x")), "outside"),
        (tar_bytes(("../readme.txt", b"x")), "outside"),
        (
            tar_bytes((special("a", tarfile.SYMTYPE, "/etc"), b""), ("a/x.jpg", b"x")),
            "link to an absolute path",
        ),
        (tar_bytes((special("a", tarfile.SYMTYPE, "../b"), b"")), "outside"),
        (
            tar_bytes((special("a.jpg", tarfile.LNKTYPE, "/etc/passwd"), b"")),
            "link to an absolute path",
        ),
        (tar_bytes((special("a.jpg", tarfile.CHRTYPE), b"")), "special file"),
        (tar_bytes((special("a.jpg", tarfile.FIFOTYPE), b"")), "special file"),
        (zip_bytes(("../out.jpg", b"x")), "outside"),
        (zip_bytes(("a/../../out.jpg", b"x")), "outside"),
        (zip_link(), "is a link"),
        (encrypted_zip(), "encrypted"),
        (forged_header(), "claims 8589"),
        (gzip.compress(tar_bytes(("a.jpg", bytes(range(256)) * 90)))[:-40], "damaged"),
        (gzip.compress(b"no archive at all" * 99), "damaged"),
        (zip_bytes(("a.jpg", bytes(range(256)) * 90))[:-60], "damaged"),
    ],
    ids=itertools.count(),  # archives contain the time, and parallel processes need equal names
)
def test_hostile_or_damaged_archive_is_named_and_writes_nothing_outside(data, words, tmp_path):
    (tmp_path / "inner").mkdir()
    archive = tmp_path / "inner" / "evil"
    archive.write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        unpack(archive, WANTED, tmp_path / "inner" / "out")
    assert str(archive) in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner"]
    assert {path.name for path in (tmp_path / "inner").iterdir()} <= {"evil", "out"}


@pytest.mark.parametrize("make", [tar_bytes, zip_bytes])
@pytest.mark.parametrize("name", ["/tmp/out.jpg", "//out.jpg", "C:/out.jpg", "..\\out.jpg"])
def test_names_that_are_absolute_elsewhere_stay_in_the_folder(make, name, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "odd").write_bytes(make((name, b"x")))
    (path,) = unpack(tmp_path / "inner" / "odd", WANTED, tmp_path / "inner" / "out").files
    assert path.resolve().is_relative_to(tmp_path / "inner" / "out")
    assert path.read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


def test_links_inside_the_archive_are_not_unpacked(tmp_path):
    link = special("b.jpg", tarfile.SYMTYPE, "a.jpg")
    (tmp_path / "x").write_bytes(tar_bytes(("a.jpg", b"one"), (link, b"")))
    files = unpack(tmp_path / "x", WANTED, tmp_path / "out").files
    assert [path.name for path in files] == ["a.jpg"]


@pytest.mark.parametrize("make", [tar_bytes, zip_bytes])
def test_there_is_a_limit_to_bytes_and_files(make, tmp_path, monkeypatch):
    (tmp_path / "bomb").write_bytes(make(("a.jpg", bytes(3_000_000)), ("b.jpg", b"")))
    monkeypatch.setattr(archives_module, "MAX_BYTES", 2_000_000)
    with pytest.raises(DataError, match="2000000 bytes"):
        unpack(tmp_path / "bomb", WANTED, tmp_path / "out")
    monkeypatch.setattr(archives_module, "MAX_BYTES", 10**9)
    monkeypatch.setattr(archives_module, "MAX_FILES", 1)
    with pytest.raises(DataError, match="more than 1 files"):
        unpack(tmp_path / "bomb", WANTED, tmp_path / "out")


def test_a_folder_with_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives_module, "MAX_FILES", 1)
    for n in range(5):
        (tmp_path / f"{n}.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="more than 4 files"):
        scan_source(tmp_path, WANTED)


def test_hidden_and_missing_files_are_ignored(tmp_path):
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "a.jpg").write_bytes(b"")
    (tmp_path / ".b.jpg").write_bytes(b"")
    assert scan_source(tmp_path, WANTED) == (SourceFiles(()), [])
    assert archive_kind(tmp_path / "gone") == ""


def flip_bit(data: bytes, position: int, bit: int = 0) -> bytes:
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"]
)
def test_a_compressed_archive_is_read_to_its_checksum(pack, tmp_path):
    noise = bytes(np.random.default_rng(0).integers(0, 256, 5000, np.uint8))
    data = pack(tar_bytes(("a.jpg", noise), ("b.txt", noise)))
    (tmp_path / "good").write_bytes(data)
    assert unpack(tmp_path / "good", WANTED, tmp_path / "out").files[0].read_bytes() == noise
    for position in range(20, len(data), 301):
        (tmp_path / "bad").write_bytes(flip_bit(data, position, position % 8))
        with pytest.raises(DataError, match=r"bad is (damaged|refused)"):
            unpack(tmp_path / "bad", WANTED, tmp_path / "out")


def test_a_damaged_header_is_not_taken_for_the_end_of_the_archive(tmp_path):
    data = tar_bytes(("a.jpg", b"one"), ("b.jpg", b"two"))
    for position in (1024 + 3, 1024 + 130, 1024 + 150):  # name, size and sum of the second member
        (tmp_path / "bad").write_bytes(flip_bit(data, position))
        with pytest.raises(DataError, match="block of zeros"):
            unpack(tmp_path / "bad", WANTED, tmp_path / "out")
    (tmp_path / "cut").write_bytes(data[:2048])  # right behind the second member
    with pytest.raises(DataError, match="block of zeros"):
        unpack(tmp_path / "cut", WANTED, tmp_path / "out")


def test_a_zip_member_whose_name_was_damaged_is_noticed(tmp_path):
    data = zip_bytes(("a.jpg", b"one"), ("b.jpg", b"two"))
    (tmp_path / "bad").write_bytes(
        flip_bit(data, data.rindex(b"b.jpg") + 4)
    )  # the name in the directory
    with pytest.raises(DataError, match="bad is damaged"):
        unpack(tmp_path / "bad", WANTED, tmp_path / "out")


def test_a_bomb_behind_the_end_of_the_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives_module, "MAX_BYTES", 2_000_000)
    (tmp_path / "bomb").write_bytes(gzip.compress(tar_bytes(("a.jpg", b"one")) + bytes(3_000_000)))
    with pytest.raises(DataError, match="more than 2000000 bytes"):
        unpack(tmp_path / "bomb", WANTED, tmp_path / "out")


def test_full_disk_is_not_reported_as_damaged_archive(tmp_path):
    (tmp_path / "good").write_bytes(tar_bytes(("a.jpg", bytes(200_000))))
    with (
        limited_files(100_000),
        pytest.raises(AnyshotError, match=r"Cannot write .*a\.jpg': File too large"),
    ):
        unpack(tmp_path / "good", WANTED, tmp_path / "out")
