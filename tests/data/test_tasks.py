import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import make_imageset, make_task
from torch.utils.data import DataLoader, Dataset

from anyshot.core.errors import DataError, SettingsError
from anyshot.core.random import numpy_rng, torch_rng
from anyshot.core.settings import TaskSettings
from anyshot.data import ImageSet
from anyshot.data.augment import augment
from anyshot.data.tasks import Task, TaskStream


@given(seed=st.integers(0, 2**31), index=st.integers(0, 10**6), way=st.integers(2, 4))
def test_a_task_depends_on_seed_split_and_index_alone(seed, index, way):
    imageset = make_imageset(classes=12, images=6)
    settings = TaskSettings(way=way, shots="any-shot:1-3", query=2)
    first = TaskStream(imageset, "train", settings, seed)
    first.task(3)  # what was drawn before does not matter
    a, b = first.task(index), TaskStream(imageset, "train", settings, seed).task(index)
    assert torch.equal(a.support, b.support)
    assert torch.equal(a.query, b.query)
    assert a.classes == b.classes
    assert torch.equal(torch.rand(3, generator=a.noise()), torch.rand(3, generator=b.noise()))


def test_every_task_has_different_noise():
    settings = TaskSettings(way=2, shots="fixed:1", query=1)
    streams = [
        TaskStream(make_imageset(), split, settings, seed)
        for split in ("train", "test")
        for seed in (0, 1)
    ]
    tasks = [stream.task(index) for stream in streams for index in range(3)]
    assert len({torch.rand(1, generator=task.noise()).item() for task in tasks}) == 12
    draws = {torch.rand(1, generator=torch_rng(*task.seed)).item() for task in tasks}
    assert not draws & {
        torch.rand(1, generator=task.noise()).item() for task in tasks
    }  # nor that of its images


def test_a_stream_can_be_iterated():
    stream = TaskStream(make_imageset(), "train", TaskSettings(way=2, query=3))
    first = list(itertools.islice(stream, 3))
    assert [task.seed for task in first] == [(0, "train", index) for index in range(3)]
    for index, task in enumerate(first):
        assert torch.equal(task.query, stream.task(index).query)


def test_other_index_split_or_seed_gives_another_task():
    settings = TaskSettings(way=2, shots="fixed:5", query=5)
    streams = [
        TaskStream(make_imageset(), split, settings, seed)
        for split in ("train", "test")
        for seed in (0, 1)
    ]
    tasks = [stream.task(index) for stream in streams for index in range(3)]
    assert len({task.support.numpy().tobytes() for task in tasks}) == 12


def test_random_numbers_of_tasks_and_noise_never_change():
    """Published results name their tasks by seed, split and number, and must find them again."""
    noise = replace(make_task(), seed=(7, "test", 3)).noise()
    assert torch.randint(0, 1000, (4,), generator=noise).tolist() == [633, 264, 958, 588]


def make_numbered_set(counts: dict[str, int]) -> ImageSet:
    """Each image is filled with a number that no other image has."""
    arrays, n = {}, 0
    for name, count in counts.items():
        arrays[name] = np.arange(n, n + count, dtype=np.uint8)[:, None, None, None] * np.ones(
            (1, 4, 4, 3), np.uint8
        )
        n += count
    return ImageSet.from_arrays("numbered", arrays, {"train": list(counts)})


def test_support_and_query_share_no_image_and_small_classes_keep_their_query():
    stream = TaskStream(
        make_numbered_set({"a": 60, "b": 20, "c": 5, "d": 2}),
        "train",
        TaskSettings(way=4, shots="fixed:50"),
    )
    task = stream.task(0)
    support, query = task.support[:, 0, 0, 0].tolist(), task.query[:, 0, 0, 0].tolist()
    assert not set(support) & set(query)
    assert len(set(support)) == len(support)
    sizes = dict(zip(task.classes, task.shots, strict=True))
    assert sizes == {"a": 45, "b": 5, "c": 1, "d": 1}  # size − 15, at least 1
    asked = torch.bincount(task.query_labels)
    assert {name: int(n) for name, n in zip(task.classes, asked, strict=True)} == {
        "a": 15,
        "b": 15,
        "c": 4,
        "d": 1,
    }


def test_warning_names_small_classes_and_what_they_give():
    small = make_numbered_set({"a": 8, "b": 8, "c": 17, "d": 40})
    stream = TaskStream(small, "train", TaskSettings(way=4, shots="fixed:5"))
    (sentence,) = stream.size_warnings()
    assert "3 of 4 train classes" in sentence
    assert "fixed:5" in sentence
    assert "8 images gives at most 1 support and 7 query images" in sentence
    assert "17 images gives at most 2 support and 15 query images" in sentence
    task = stream.task(0)
    drawn = dict(
        zip(
            task.classes,
            zip(task.shots, torch.bincount(task.query_labels).tolist(), strict=True),
            strict=True,
        )
    )
    assert drawn == {"a": (1, 7), "b": (1, 7), "c": (2, 15), "d": (5, 15)}
    (sentence,) = TaskStream(
        small, "train", TaskSettings(way=4, shots="any-shot:1-50")
    ).size_warnings()
    assert "4 of 4 train classes" in sentence
    assert "40 images gives at most 25 support and 15 query images" in sentence


def test_large_classes_give_no_warning():
    enough = make_numbered_set({"a": 20, "b": 20})
    assert (
        TaskStream(enough, "train", TaskSettings(way=2, shots="any-shot:1-5")).size_warnings() == []
    )
    assert (
        len(TaskStream(enough, "train", TaskSettings(way=2, shots="any-shot:1-6")).size_warnings())
        == 1
    )
    both = TaskStream(
        [enough, make_numbered_set({"c": 3, "d": 3})],
        "train",
        TaskSettings(way=2, shots="fixed:1", query=2),
    )
    assert both.size_warnings() == []
    assert both.class_names() == ("a", "b", "c", "d")


def test_too_few_classes_or_images_are_refused():
    with pytest.raises(DataError, match="has 2 classes in its train split, but a task needs 5"):
        TaskStream(make_numbered_set({"a": 5, "b": 5}), "train")
    with pytest.raises(DataError, match="fewer than two images"):
        TaskStream(make_numbered_set({"a": 5, "b": 1}), "train", TaskSettings(way=2))
    with pytest.raises(DataError, match="0 classes in its test split"):
        TaskStream(make_numbered_set({"a": 5, "b": 5}), "test", TaskSettings(way=2))


@pytest.mark.parametrize("imagesets", [[], "glyphs", [make_imageset(), np.zeros(3)]])
def test_only_image_sets_make_a_stream(imagesets):
    with pytest.raises(DataError, match="open_images"):
        TaskStream(imagesets, "train", TaskSettings(way=2))


def test_several_image_sets_are_drawn_at_random_or_in_turn():
    sets = [make_imageset(name=n, images=6) for n in ("one", "two", "three")]
    settings = TaskSettings(way=2, shots="fixed:1", query=1)
    in_turn = TaskStream(sets, "train", settings, mixing="turn", tasks_per_set=2)
    assert [in_turn.task(i).imageset for i in range(7)] == [
        "one",
        "one",
        "two",
        "two",
        "three",
        "three",
        "one",
    ]
    one_by_one = TaskStream(sets, "train", settings, mixing="turn")
    assert [one_by_one.task(i).imageset for i in range(4)] == ["one", "two", "three", "one"]
    at_random = [TaskStream(sets, "train", settings).task(i).imageset for i in range(300)]
    assert (np.unique(at_random, return_counts=True)[1] > 70).all()
    assert at_random[:9] != ["one", "two", "three"] * 3


@pytest.mark.parametrize(("kind", "mirrors"), [("photographs", True), ("characters", False)])
def test_task_records_whether_images_may_be_mirrored(kind, mirrors):
    imageset = replace(make_imageset(), kind=kind)
    assert TaskStream(imageset, "train", TaskSettings(way=2)).task(0).flip_invariant is mirrors


def test_augmentation_changes_pixels_only():
    settings = TaskSettings(way=2, shots="fixed:3", query=4)
    plain = TaskStream(make_imageset(), "train", settings).task(5)
    stream = TaskStream(make_imageset(), "train", settings, augment=("auto", "colour"))
    other, again = stream.task(5), stream.task(5)
    assert plain.classes == other.classes
    assert torch.equal(plain.query_labels, other.query_labels)
    rng = numpy_rng(0, "train", 5, "augment")  # support first, then query
    for part in ("support", "query"):
        expected = augment(getattr(plain, part).numpy(), ("flip", "shift", "colour"), rng)
        assert (getattr(other, part).numpy() == expected).all()
        assert torch.equal(getattr(other, part), getattr(again, part))
        assert not torch.equal(getattr(other, part), getattr(plain, part))


# ------------------------------------------------------------------------------ torch's Dataset
def finite_stream(tasks: int | None = 5, **changes) -> TaskStream:
    settings = TaskSettings(way=2, shots="any-shot:1-3", query=2)
    return TaskStream(make_imageset(images=6), "train", settings, 3, tasks=tasks, **changes)


def same(a: Task, b: Task) -> bool:
    return a.seed == b.seed and torch.equal(a.support, b.support) and torch.equal(a.query, b.query)


def test_a_stream_of_n_tasks_has_a_length_and_ends():
    stream = finite_stream()
    assert isinstance(stream, Dataset)
    assert len(stream) == 5
    assert all(same(a, b) for a, b in zip(stream, finite_stream(None), strict=False))
    assert len(list(stream)) == 5
    assert same(stream[4], stream.task(4))
    for index in (5, -1):
        with pytest.raises(IndexError, match=str(index)):
            stream[index]


def test_an_endless_stream_has_no_length_and_any_index():
    stream = finite_stream(None)
    with pytest.raises(TypeError, match="tasks=N"):
        len(stream)
    assert stream
    assert stream[10**6].seed == (3, "train", 10**6)
    with pytest.raises(IndexError):
        stream[-1]


@pytest.mark.parametrize("tasks", [0, -3])
def test_a_stream_without_tasks_is_refused(tasks):
    with pytest.raises(SettingsError, match=str(tasks)):
        finite_stream(tasks)


def test_a_data_loader_gives_the_same_tasks():
    stream = finite_stream()
    single = list(DataLoader(stream, batch_size=None))
    assert all(same(a, stream.task(index)) for index, a in enumerate(single))
    batches = list(DataLoader(stream, batch_size=2, collate_fn=list))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    order = torch.Generator().manual_seed(0)
    shuffled = list(DataLoader(stream, batch_size=None, shuffle=True, generator=order))
    assert sorted(task.seed[2] for task in shuffled) == [0, 1, 2, 3, 4]
    assert all(same(task, stream.task(task.seed[2])) for task in shuffled)


def test_a_pickled_stream_draws_the_same_tasks():
    stream = finite_stream(augment=("shift",))
    assert same(pickle.loads(pickle.dumps(stream))[2], stream[2])


def test_val_means_validation():
    images = make_imageset(classes=12, images=6)
    settings = TaskSettings(way=2, shots="fixed:1", query=1)
    images = replace(images, splits={"val": tuple(range(6))})
    assert images.splits == {"validation": tuple(range(6))}
    short, full = (TaskStream(images, split, settings) for split in ("val", "validation"))
    assert short.split == "validation"
    assert same(short.task(3), full.task(3))
    with pytest.raises(DataError, match="holdout"):
        TaskStream(images, "holdout", settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mixing": "turns"},
        {"augment": ("flop",)},
        {"augment": "flip"},
        {"seed": -1},
        {"seed": 0.5},
        {"settings": 5},
    ],
    ids=str,
)
def test_a_stream_refuses_an_argument_that_would_have_no_effect_or_fail_later(wrong):
    (value,) = wrong.values()
    with pytest.raises(SettingsError, match=str(value[0] if isinstance(value, tuple) else value)):
        TaskStream(make_imageset(), "train", **{"settings": TaskSettings(way=2), **wrong})
