from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import pickle
import re
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from anyshot.core.errors import DataError, FileError
from anyshot.data import open_images
from anyshot.data.published import (
    CATALOGUE,
    RemoteFile,
    find_dataset,
    is_prepared,
    prepare,
    prepared_folder,
    verify_prepared,
)

EXPECTED = {  # classes by split, images of a class
    "cifar-fs": ((64, 16, 20), 3),
    "svhn": ((0, 10, 10), None),
    "miniimagenet": ((64, 16, 20), 3),
    "cub": ((100, 50, 50), 3),
    "aircraft": ((70, 15, 15), 3),
    "quickdraw": ((241, 52, 52), 3),
    "vgg-flower": ((71, 15, 16), 3),
    "gtsrb": ((0, 0, 43), 3),
    "fashion-mnist": ((0, 0, 10), 3),
    "omniglot": ((883, 81, 659), 2),
    "tieredimagenet": ((351, 97, 160), 1),
}
PAPER = [name for name in EXPECTED if name not in ("omniglot", "tieredimagenet")]


def class_colour(name: str, c: int) -> list[int]:
    if name == "quickdraw":
        return [c % 256] * 3
    if name == "fashion-mnist":
        return [c * 20] * 3
    if name == "omniglot":
        return [255 * (c % 2)] * 3
    if name == "tieredimagenet":
        c %= 512
    if name == "cifar-fs":  # its colours go by the alphabet
        splits = CATALOGUE[name].splits()
        labels = [label for members in splits.values() for label in members]
        c = sorted(labels).index(labels[c])
    c = c % 10 if name == "svhn" else c
    return [c % 8 * 32 + 16, c // 8 % 8 * 32 + 16, c // 64 * 32 + 16]


def nothing_left(cache) -> bool:
    return not cache.exists() or not [
        path for path in cache.rglob("*") if path.is_file() or path.name.startswith(".")
    ]


def test_the_catalogue_starts_with_the_nine_sets_of_the_paper():
    assert list(CATALOGUE) == list(EXPECTED)
    assert list(CATALOGUE)[:9] == PAPER


@pytest.mark.parametrize("name", EXPECTED)
def test_official_files_become_a_set(name, official, tmp_path):
    source = official[name](tmp_path)
    images = prepare(CATALOGUE[name], source)
    splits, each = EXPECTED[name]
    assert (
        tuple(len(images.splits.get(split, ())) for split in ("train", "validation", "test"))
        == splits
    )
    assert images.size == (CATALOGUE[name].side,) * 2
    assert images.name == name
    if each:
        assert set(images.counts) == {each}
    for c in range(0, len(images.classes), 7):
        difference = images.images_of(c)[:, 10:20, 10:20].astype(int) - class_colour(name, c)
        assert np.abs(difference).max() <= 8
    assert open_images(name).classes == verify_prepared(CATALOGUE[name]).classes == images.classes


@pytest.mark.parametrize("name", ["cifar-fs", "cub", "gtsrb", "aircraft", "vgg-flower"])
def test_unpacked_folder_gives_the_same_images_as_the_archive(name, official, tmp_path):
    (tmp_path / "packed").mkdir()
    source = official[name](tmp_path / "packed")
    packed = prepare(CATALOGUE[name], source)
    for path in list((tmp_path / "packed").iterdir()):
        if path.suffix == ".mat":
            continue
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(tmp_path / "packed" / "open")
        else:
            with tarfile.open(path) as archive:
                archive.extractall(tmp_path / "packed" / "open", filter="data")
        path.unlink()
    again = prepare(CATALOGUE[name], tmp_path / "packed", again=True)
    assert np.array_equal(packed.images, again.images)


def test_aircraft_are_cropped_by_their_boxes_and_resized_as_a_whole(official, tmp_path):
    images = prepare(CATALOGUE["aircraft"], official["aircraft"](tmp_path))
    for c in (0, 42, 99):  # the box is 80 x 20 pixels of one colour on white
        difference = images.images_of(c).astype(int) - class_colour("aircraft", c)
        assert np.abs(difference).max() < 80  # white differs by more than 200


def boxes_without_an_image(members):
    members["fgvc-aircraft-2013b/data/images_box.txt"] = b"0000000 6 21 85 40\n"


def boxes_of_words(members):
    members["fgvc-aircraft-2013b/data/images_box.txt"] += b"0000000 one two three four\n"


@pytest.mark.parametrize(
    ("change", "words"), [(boxes_without_an_image, "has no box"), (boxes_of_words, "one two")]
)
def test_damaged_boxes_are_refused(change, words, official, tmp_path):
    source = official["aircraft"](tmp_path)
    retar(source, change)
    with pytest.raises(DataError, match=rf"images_box.txt .*{words}"):
        prepare(CATALOGUE["aircraft"], source)


def test_omniglot_needs_both_archives(official, tmp_path):
    official["omniglot"](tmp_path)
    (tmp_path / "images_evaluation.zip").unlink()
    with pytest.raises(DataError, match="images_evaluation"):
        prepare(CATALOGUE["omniglot"], tmp_path)


def test_images_of_tieredimagenet_are_resized_as_a_whole(official, tmp_path):
    images = prepare(CATALOGUE["tieredimagenet"], official["tieredimagenet"](tmp_path))
    assert (
        images.images_of(3)[0, 20:60, [0, 83]] > 200
    ).all()  # white margins that a crop cuts off


def test_the_classes_of_tieredimagenet_are_disjoint_and_those_of_imagenet():
    splits = CATALOGUE["tieredimagenet"].splits()
    labels = [label for members in splits.values() for label in members]
    assert len(set(labels)) == 608
    assert all(re.fullmatch(r"n\d{8}", label) for label in labels)
    assert "n01440764" in splits["test"]  # tench, a fish
    assert "n02123045" in splits["train"]  # tabby cat


def test_quickdraw_has_the_split_of_meta_dataset():
    splits = CATALOGUE["quickdraw"].splits()
    assert "Meta-Dataset" in CATALOGUE["quickdraw"].split_source()
    assert splits["test"][:3] == ["angel", "animal migration", "axe"]
    assert splits["train"][:3] == ["hedgehog", "swan", "police car"]


# ------------------------------------------------------------------------ parts of official files
def test_a_part_of_the_official_images_is_recorded_by_split(official, tmp_path):
    images = prepare(CATALOGUE["svhn"], official["svhn"](tmp_path))
    assert images.part_of_official("test") == "30 of 26,032 official test images"
    assert images.part_of_official("val") == ""
    assert open_images("svhn").part_of_official("test") == images.part_of_official("test")
    saved = images.save(tmp_path / "copy")
    assert saved.part_of_official("test") == images.part_of_official("test")


@pytest.mark.parametrize(
    ("name", "split", "text"),
    [
        ("cifar-fs", "train", "192 of 38,400 official train images"),
        ("gtsrb", "test", "129 of 39,209 official test images"),
        ("vgg-flower", "test", "306 of 8,189 official images"),
    ],
)
def test_official_numbers_are_those_of_the_split_or_of_the_set(
    name, split, text, official, tmp_path
):
    assert prepare(CATALOGUE[name], official[name](tmp_path)).part_of_official(split) == text


def test_a_complete_set_is_not_called_a_part(official, tmp_path):
    complete = dataclasses.replace(CATALOGUE["fashion-mnist"], images_per_class=3)
    images = prepare(complete, official["fashion-mnist"](tmp_path))
    assert images.part_of_official("test") == ""
    assert "part" not in images.notes


def test_svhn_takes_six_hundred_training_images_a_digit_for_validation(official, tmp_path):
    images = prepare(CATALOGUE["svhn"], official["svhn"](tmp_path))
    assert images.counts.tolist() == [600] * 10 + [3] * 10
    assert images.classes[:2] == ("0 (validation)", "1 (validation)")
    assert images.classes[10:12] == ("0", "1")


def test_svhn_prefers_the_validation_file_and_accepts_one_split(official, tmp_path):
    source = official["svhn"](tmp_path)
    (tmp_path / "val_32x32.mat").write_bytes((tmp_path / "test_32x32.mat").read_bytes())
    assert prepare(CATALOGUE["svhn"], source).counts.tolist() == [3] * 20
    one = prepare(CATALOGUE["svhn"], tmp_path / "val_32x32.mat", again=True)
    assert set(one.splits) == {"validation", "test"}, "files next to a given file are found"
    (tmp_path / "alone").mkdir()
    (tmp_path / "test_32x32.mat").rename(tmp_path / "alone" / "test_32x32.mat")
    assert set(prepare(CATALOGUE["svhn"], tmp_path / "alone", again=True).splits) == {"test"}


def write_listed_miniimagenet(folder):
    splits = CATALOGUE["miniimagenet"].splits()
    (folder / "images").mkdir()
    for part, names in zip(("train", "val", "test"), splits.values(), strict=True):
        rows = ["filename,label"]
        for name in names:
            for n in range(2):
                Image.new("RGB", (90, 100), (n * 200, 10, 10)).save(
                    folder / "images" / f"{name}{n:08}.jpg"
                )
                rows.append(f"{name}{n:08}.jpg,{name}")
        (folder / f"{part}.csv").write_text("\n".join(rows))


def test_miniimagenet_is_read_from_csv_files_and_images(tmp_path):
    write_listed_miniimagenet(tmp_path)
    images = prepare(CATALOGUE["miniimagenet"], tmp_path)
    assert images.images.shape == (200, 84, 84, 3)
    assert images.images_of("n01930112")[:, 40, 40, 0].tolist() == pytest.approx([0, 200], abs=4)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x.jpg,n99999999", "n99999999"),
        ("gone.jpg,n01532829", "'gone.jpg'"),
        ("x" * 200_000, "field limit"),
    ],
)
def test_a_csv_that_lists_what_is_not_there_is_refused(tmp_path, line, words):
    write_listed_miniimagenet(tmp_path)
    with open(tmp_path / "train.csv", "a") as file:
        file.write("\n" + line)
    with pytest.raises(DataError, match=words):
        prepare(CATALOGUE["miniimagenet"], tmp_path)


@pytest.mark.parametrize("name", ["miniimagenet", "vgg-flower", "gtsrb", "aircraft"])
def test_class_folders_of_reduced_pictures_are_read_too(name, tmp_path):
    labels = [label for members in CATALOGUE[name].splits().values() for label in members]
    for label in labels:
        folder = tmp_path / "set" / label.replace("/", "-")
        folder.mkdir(parents=True)
        for n in range(2):
            Image.new("RGB", (32, 32), (n * 100, 5, 5)).save(folder / f"{n}.png")
    (tmp_path / "set" / "001.Black_footed_Albatross").mkdir()  # a class of another set does no harm
    Image.new("RGB", (32, 32)).save(tmp_path / "set" / "001.Black_footed_Albatross" / "1.png")
    images = prepare(CATALOGUE[name], tmp_path)
    assert set(images.counts) == {2}
    assert list(images.classes) == labels


def test_prepared_set_is_kept_unless_again_is_given(official, tmp_path):
    dataset = CATALOGUE["fashion-mnist"]
    source = official["fashion-mnist"](tmp_path)
    prepare(dataset, source)
    before = (prepared_folder(dataset) / "set.json").stat().st_ino
    prepare(dataset, tmp_path / "nothing here")
    assert (prepared_folder(dataset) / "set.json").stat().st_ino == before
    prepare(dataset, source, again=True)
    assert (prepared_folder(dataset) / "set.json").stat().st_ino != before


def test_an_interrupted_preparation_leaves_nothing(official, tmp_path, cache):
    dataset = CATALOGUE["fashion-mnist"]

    def interrupted(tree, splits):
        yield next(dataset.read(tree, splits))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(dataclasses.replace(dataset, read=interrupted), official["fashion-mnist"](tmp_path))
    assert not is_prepared(dataset)
    assert nothing_left(cache)


KILLED = """
import dataclasses, sys, time
from anyshot.data.published import CATALOGUE, prepare
dataset = CATALOGUE["fashion-mnist"]
def slow(tree, splits):
    classes = dataset.read(tree, splits)
    yield next(classes)
    yield next(classes)
    print("half", flush=True)
    time.sleep(60)
prepare(dataclasses.replace(dataset, read=slow), sys.argv[1])
"""


def test_killed_preparation_leaves_nothing_that_looks_complete(official, tmp_path, cache):
    dataset = CATALOGUE["fashion-mnist"]
    source = official["fashion-mnist"](tmp_path)
    command = [sys.executable, "-c", KILLED, str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"half\n"
        process.kill()
    assert not is_prepared(dataset)
    assert not nothing_left(cache)
    with pytest.raises(DataError, match="fashion-mnist"):
        open_images("fashion-mnist")
    assert nothing_left(cache), "the next start clears what the killed one left"
    prepare(dataset, source)
    assert verify_prepared(dataset).counts.tolist() == [3] * 10


def test_unprepared_set_gets_the_command_to_prepare_it(cache):
    with pytest.raises(DataError, match="anyshot data prepare cub"):
        open_images("cub")


def test_unknown_name_gets_a_suggestion():
    with pytest.raises(DataError, match=r"cifarfs.*'cifar-fs'"):
        find_dataset("cifarfs")
    with pytest.raises(DataError, match="there are cifar-fs, svhn"):
        find_dataset("zzz")


def test_set_without_download_gets_the_files_and_their_folder(official, cache):
    dataset = CATALOGUE["miniimagenet"]
    with pytest.raises(DataError, match=r"mini-imagenet-cache-train.pkl.*downloads.miniimagenet"):
        prepare(dataset)
    folder = cache / "downloads" / "miniimagenet"
    folder.mkdir(parents=True)
    official["miniimagenet"](folder)
    assert len(prepare(dataset).classes) == 100


@pytest.mark.parametrize("name", EXPECTED)
def test_folder_without_the_data_set_gets_the_expected_files(name, tmp_path, cache):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "holiday.txt").write_text("nothing")
    with pytest.raises(DataError, match=r"does not contain .* expected"):
        prepare(CATALOGUE[name], tmp_path / "source")
    assert nothing_left(cache)


def test_a_source_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file or folder .*gone"):
        prepare(CATALOGUE["cub"], tmp_path / "gone.tgz")


def test_damage_to_the_prepared_pixels_or_splits_is_found(official, tmp_path):
    dataset = CATALOGUE["fashion-mnist"]
    prepare(dataset, official["fashion-mnist"](tmp_path))
    about = prepared_folder(dataset) / "set.json"
    good = about.read_text()
    about.write_text(good.replace("Trouser", "Toaster"))
    with pytest.raises(DataError, match="test classes"):
        verify_prepared(dataset)
    about.write_text(good)
    data = bytearray((prepared_folder(dataset) / "images.npy").read_bytes())
    data[5000] ^= 255
    (prepared_folder(dataset) / "images.npy").write_bytes(data)
    with pytest.raises(DataError, match="checksum"):
        verify_prepared(dataset)


# ---------------------------------------------------------------------- wrong content
def one_class_less(folder):
    (next((folder / "numpy_bitmap").glob("a*.npy"))).unlink()


def replace_file(pattern, data):
    def harm(folder):
        next(folder.rglob(pattern)).write_bytes(data)

    return harm


def cut(pattern, share=0.6):
    def harm(folder):
        path = next(folder.rglob(pattern))
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    return harm


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def mat(**content) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, content)
    return buffer.getvalue()


def mini(**content) -> bytes:
    return pickle.dumps(content)


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("quickdraw", one_class_less, "lacks 1 of 345 files"),
        ("quickdraw", cut("zebra.npy"), "zebra.npy is damaged .*truncated"),
        ("quickdraw", replace_file("zebra.npy", b"no array"), "zebra.npy is damaged"),
        ("quickdraw", replace_file("zebra.npy", npy(np.zeros((5, 784)))), "<f8"),
        ("quickdraw", replace_file("zebra.npy", npy(np.array([{}]))), "zebra.npy is damaged"),
        ("quickdraw", replace_file("*.npy", npy(np.zeros((0, 784), np.uint8))), "is damaged"),
        ("fashion-mnist", cut("t10k-images*"), "t10k-images-idx3-ubyte.gz is damaged"),
        ("fashion-mnist", replace_file("t10k-labels*", b"\0\0\x0d\1\0\0\0\0"), "IDX"),
        ("fashion-mnist", replace_file("t10k-labels*", b"\0\0\x08\1\xff\xff\xff\xff"), "announces"),
        ("fashion-mnist", replace_file("t10k-labels*", b"\0\0\x08\1\0\0\0\x05\1\1"), "truncated"),
        (
            "fashion-mnist",
            replace_file("t10k-labels*", b"\0\0\x08\1\0\0\0\x05\1\1\1\1\1"),
            "for 5 labels",
        ),
        (
            "fashion-mnist",
            replace_file("t10k-labels*", b"\0\0\x08\1\0\0\0\x1e" + b"\1" * 30),
            "no label 0",
        ),
        (
            "fashion-mnist",
            replace_file("t10k-labels*", b"\0\0\x08\2\0\0\0\x1e\0\0\0\1" + bytes(30)),
            "0 to 9",
        ),
        (
            "fashion-mnist",
            replace_file("t10k-labels*", b"\0\0\x08\1\0\0\0\x1e" + bytes(29) + b"\x0a"),
            "0 to 9",
        ),
        (
            "svhn",
            replace_file("test_32x32.mat", mat(X=np.zeros((32, 32, 3, 1), np.uint8), y=[[57]])),
            "from 0 to 10",
        ),
        (
            "svhn",
            replace_file("test_32x32.mat", mat(X=np.zeros((32, 32, 3, 1), np.uint8), y=[[np.nan]])),
            "from 0 to 10",
        ),
        ("svhn", cut("test_32x32.mat"), "test_32x32.mat is damaged"),
        ("svhn", replace_file("test_32x32.mat", b"not a matrix" * 50), "test_32x32.mat is damaged"),
        (
            "svhn",
            replace_file("test_32x32.mat", mat(X=np.zeros((32, 32, 3, 2), np.uint8), y=[[1]])),
            "with n labels 'y'",
        ),
        (
            "svhn",
            replace_file("test_32x32.mat", mat(X=np.zeros((32, 32, 3, 1), np.uint8), y=[[1]])),
            "has no digit 0",
        ),
        ("miniimagenet", cut("*train.pkl"), "mini-imagenet-cache-train.pkl is damaged"),
        (
            "miniimagenet",
            replace_file("*val.pkl", mini(image_data=[], class_dict={})),
            "'image_data' is not uint8",
        ),
        (
            "miniimagenet",
            replace_file(
                "*val.pkl",
                mini(image_data=np.zeros((1, 84, 84, 3), np.uint8), class_dict={"n1": [0]}),
            ),
            "no class 'n01855672'",
        ),
        (
            "miniimagenet",
            replace_file(
                "*val.pkl",
                mini(image_data=np.zeros((1, 84, 84, 3), np.uint8), class_dict={"n01855672": [9]}),
            ),
            "not all integers from 0 to 0",
        ),
        ("miniimagenet", replace_file("*val.pkl", pickle.dumps([1, 2])), "holds a list"),
        ("cub", cut("CUB_200_2011.tgz"), "CUB_200_2011.tgz is damaged"),
        ("gtsrb", cut("GTSRB*.zip"), "GTSRB_Final_Training_Images.zip is damaged"),
        ("vgg-flower", cut("imagelabels.mat"), "imagelabels.mat is damaged"),
    ],
)
def test_wrong_file_is_named_and_leaves_nothing(name, harm, words, official, tmp_path, cache):
    official[name](tmp_path)
    harm(tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        prepare(CATALOGUE[name], tmp_path)
    assert "\n" not in str(caught.value)
    assert nothing_left(cache)


def retar(path, change):
    """Rewrite a tar archive with {name: data} changed."""
    with tarfile.open(path) as archive:
        members = {info.name: archive.extractfile(info).read() for info in archive}
    change(members)
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def without_albatross(members):
    for name in [name for name in members if "002.Laysan" in name]:
        del members[name]


def broken_bird(members):
    name = next(name for name in members if "002.Laysan" in name)
    members[name] = members[name][:100]


def strange_list(members):
    members["fgvc-aircraft-2013b/data/images_variant_test.txt"] += b"0000000 Flying Saucer\n"


def bare_meta(members):
    members["cifar-100-python/meta"] = pickle.dumps({"fine_label_names": ["apple"]})


def odd_data(members):
    members["cifar-100-python/train"] = pickle.dumps(
        {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1]}
    )


def one_flower_less(members):
    del members["jpg/image_00009.jpg"]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "cub",
            without_albatross,
            "no images of 1 of 200 classes, for instance '002.Laysan_Albatross'",
        ),
        ("cub", broken_bird, "Laysan_Albatross_0000.jpg is damaged"),
        ("aircraft", strange_list, "Flying Saucer"),
        ("cifar-fs", bare_meta, "meta is damaged .*no class 'train'"),
        ("cifar-fs", odd_data, "train is damaged .*2 images and 1 'fine_labels'"),
        ("vgg-flower", one_flower_less, "no image image_00009.jpg"),
    ],
)
def test_archive_with_wrong_content_is_refused(name, change, words, official, tmp_path, cache):
    source = official[name](tmp_path)
    retar(source, change)
    with pytest.raises(DataError, match=words):
        prepare(CATALOGUE[name], source)
    assert nothing_left(cache)


def test_a_reader_that_gives_too_few_classes_is_noticed(official, tmp_path, cache):
    dataset = CATALOGUE["fashion-mnist"]

    def lazy(tree, splits):
        classes = dataset.read(tree, splits)
        yield from (next(classes) for _ in range(4))

    with pytest.raises(DataError, match="only 4 of the 10 classes"):
        prepare(dataclasses.replace(dataset, read=lazy), official["fashion-mnist"](tmp_path))
    assert nothing_left(cache)


def test_other_archives_next_to_the_right_one_do_no_harm(official, tmp_path):
    official["gtsrb"](tmp_path)
    (tmp_path / "a broken one.zip").write_bytes(b"PK\x03\x04 and no more")
    assert len(prepare(CATALOGUE["gtsrb"], tmp_path).classes) == 43


def test_a_damaged_archive_of_something_else_is_not_blamed(tmp_path):
    (tmp_path / "changelog.gz").write_bytes(gzip.compress(b"text" * 99))
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"text" * 99)[:-20])
    with pytest.raises(DataError, match=r"does not contain .*[12] of 2 archives cannot be read"):
        prepare(CATALOGUE["cub"], tmp_path)


def test_split_files_name_their_source():
    for dataset in CATALOGUE.values():
        labels = [label for members in dataset.splits().values() for label in members]
        assert len(set(labels)) == len(labels)
        assert len(dataset.split_source()) > 20


# ---------------------------------------------------------------------- checksums
def noisy_cifar(path, classes=100):
    """A small CIFAR-100 of noise; it does not compress, so that every byte matters."""
    names = sorted(
        label for members in CATALOGUE["cifar-fs"].splits().values() for label in members
    )
    pixels = np.random.default_rng(1).integers(0, 256, (classes, 3072), np.uint8)
    train = {"data": pixels, "fine_labels": list(range(classes))}
    contents = {"meta": {"fine_label_names": names}, "train": train, "test": train}
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in contents.items():
            data = pickle.dumps(content)
            info = tarfile.TarInfo(f"cifar-100-python/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_no_flipped_bit_of_an_archive_gives_other_pixels(tmp_path, cache):
    dataset = CATALOGUE["cifar-fs"]
    path = noisy_cifar(tmp_path / "cifar-100-python.tar.gz")
    good, data = prepare(dataset, path).checksum, path.read_bytes()
    refused = 0
    for n, position in enumerate(np.linspace(0, len(data) - 1, 12).astype(int)):
        path.write_bytes(
            data[:position] + bytes([data[position] ^ 1 << n % 8]) + data[position + 1 :]
        )
        try:
            assert prepare(dataset, path, again=True).checksum == good, (
                f"bit {n % 8} of byte {position}"
            )
        except DataError:
            refused += 1
    assert refused >= 10, "only bits of the header, such as the time, may change without harm"


def test_warning_names_a_file_that_is_not_the_official_one(tmp_path, caplog):
    dataset = CATALOGUE["cifar-fs"]
    path = noisy_cifar(tmp_path / "mine.tgz")
    actual = hashlib.md5(path.read_bytes()).hexdigest()
    images = prepare(dataset, path)
    assert re.search(
        rf"mine.tgz is readable, but not the official file.* {actual}, not the published eb90",
        caplog.text,
    )
    assert images.notes["files"] == {
        "mine.tgz": f"MD5 {actual}, not the published {dataset.remotes[0].md5}"
    }


def test_official_file_is_recognised_by_its_checksum(tmp_path, caplog):
    path = noisy_cifar(tmp_path / "mine.tgz")
    actual = hashlib.md5(path.read_bytes()).hexdigest()
    dataset = dataclasses.replace(
        CATALOGUE["cifar-fs"], remotes=(RemoteFile("https://x/cifar.tgz", actual),)
    )
    assert prepare(dataset, path).notes["files"] == {"mine.tgz": f"MD5 {actual}, as published"}
    assert caplog.text == ""


def test_unpacked_files_are_compared_by_name(official, tmp_path, caplog):
    source = official["svhn"](tmp_path)
    assert set(prepare(CATALOGUE["svhn"], source).notes["files"]) == {
        "test_32x32.mat",
        "train_32x32.mat",
    }
    assert "not the published eb5a983be6a315427106f1b164d9cef3" in caplog.text


def test_damaged_archive_next_to_a_good_one_is_ignored_with_a_warning(tmp_path, caplog):
    noisy_cifar(tmp_path / "whole.tgz")
    (tmp_path / "half.tgz").write_bytes((tmp_path / "whole.tgz").read_bytes()[:5000])
    assert len(prepare(CATALOGUE["cifar-fs"], tmp_path).classes) == 100
    assert re.search("half.tgz is damaged .* ignored", caplog.text)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "integers from 0 to 99"),
        (None, "integers"),
        (5, "integers"),
        ("apples", "integers"),
        ({"a": 1}, "integers"),
        ([["1"]] * 100, "integers"),
        ([[1], [2, 3]] * 50, "integers"),
        (["1"] * 100, "integers"),
        ([1.5] * 100, "integers"),
        ([float("nan")] * 100, "integers"),
        ([True] * 100, "integers"),
        ([10**30] * 100, "integers"),
        ([-1] * 100, "integers"),
        ([100] * 100, "integers"),
        ([1] * 99, "99 'fine_labels'"),
        ([7] * 100, "no images of class"),
    ],
)
def test_cifar_labels_of_wrong_types_and_sets_of_nothing_are_refused(
    labels, words, tmp_path, cache
):
    names = [label for members in CATALOGUE["cifar-fs"].splits().values() for label in members]
    part = {"data": np.zeros((100, 3072), np.uint8), "fine_labels": labels}
    for name, content in {"meta": {"fine_label_names": names}, "train": part, "test": part}.items():
        (tmp_path / name).write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=words):
        prepare(CATALOGUE["cifar-fs"], tmp_path)
    assert nothing_left(cache)


@pytest.mark.parametrize("names", [None, 5, "apple", [["apple"]], {}])
def test_cifar_names_of_wrong_types_are_refused(names, tmp_path):
    for name, content in {"meta": {"fine_label_names": names}, "train": {}, "test": {}}.items():
        (tmp_path / name).write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=r"meta is damaged .*there is no class"):
        prepare(CATALOGUE["cifar-fs"], tmp_path)


def test_unwritable_cache_gets_a_message(official, tmp_path, monkeypatch):
    source = official["fashion-mnist"](tmp_path)
    monkeypatch.setenv("ANYSHOT_CACHE", str(source / "t10k-images-idx3-ubyte.gz" / "cache"))
    for given in (source, None):
        with pytest.raises(FileError, match=r"Cannot create .*: Not a directory\. .*ANYSHOT_CACHE"):
            prepare(CATALOGUE["fashion-mnist"], given)


def test_a_source_whose_name_is_not_utf8_is_prepared(official, tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    images = prepare(CATALOGUE["fashion-mnist"], official["fashion-mnist"](folder))
    assert images.notes["source"] == str(folder)
