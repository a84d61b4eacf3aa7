import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import make_imageset, make_task

from anyshot.core.errors import AnyshotError
from anyshot.core.random import numpy_rng, torch_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.settings import TaskSettings, parse_shots
from anyshot.data import ImageSet
from anyshot.data.augment import augment
from anyshot.data.tasks import TaskStream


def shots(text: str, way: int = 5, draws: int = 4000) -> np.ndarray:
    rule, least, most = parse_shots(text)
    return np.array([SHOT_RULES[rule](numpy_rng(i), way, least, most) for i in range(draws)])


def test_any_shot_is_half_class_and_half_task_imbalance():
    drawn = shots("any-shot:1-50")
    equal = (drawn == drawn[:, :1]).all(1)
    assert abs(equal.mean() - 0.5) < 0.04
    assert drawn.min() == 1
    assert drawn.max() == 50
    assert abs(drawn.mean() - 25.5) < 0.8


def test_class_imbalance_is_uniform_and_independent():
    drawn = shots("class-imbalance:5-25")
    counts = np.bincount(drawn.ravel(), minlength=26)[5:]
    expected = drawn.size / 21
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 45  # chi-square, 20 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.05


def test_task_imbalance_and_fixed_are_equal_within_a_task():
    even = shots("task-imbalance:1-50")
    assert (np.ptp(even, axis=1) == 0).all()
    assert (even.min(), even.max()) == (1, 50)
    assert (shots("fixed:7", draws=3) == 7).all()
    assert (shots("7", draws=3) == 7).all()
    assert shots("any-shot", draws=500).max() <= 50


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fixed",
        "any-shot:0-5",
        "any-shot:9-5",
        "some-shot:1-5",
        "fixed:x",
        "1-2-3",
        "1-50",
        "fixed:1-5",
        "any-shot5",
        "fixed:99999999999999999999",
        "any-shot:1-99999999999999999999",
        "fixed:" + "9" * 5000,
    ],
)
def test_shots_that_make_no_sense_are_refused(text):
    with pytest.raises(AnyshotError):
        parse_shots(text)
    with pytest.raises(AnyshotError):
        TaskSettings(shots=text)


@given(seed=st.integers(0, 2**31), index=st.integers(0, 10**6), way=st.integers(2, 4))
def test_a_task_is_a_function_of_its_seed_alone(seed, index, way):
    imageset = make_imageset(classes=12, images=6)
    settings = TaskSettings(way=way, shots="any-shot:1-3", query=2)
    first = TaskStream(imageset, "train", settings, seed)
    first.task(3)  # what was drawn before does not matter
    a, b = first.task(index), TaskStream(imageset, "train", settings, seed).task(index)
    assert torch.equal(a.support, b.support)
    assert torch.equal(a.query, b.query)
    assert a.classes == b.classes
    assert torch.equal(torch.rand(3, generator=a.noise()), torch.rand(3, generator=b.noise()))


def test_every_task_of_every_stream_has_noise_of_its_own():
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


def test_the_stream_can_be_iterated():
    stream = TaskStream(make_imageset(), "train", TaskSettings(way=2, query=3))
    first = list(itertools.islice(stream, 3))
    assert [task.seed for task in first] == [(0, "train", index) for index in range(3)]
    for index, task in enumerate(first):
        assert torch.equal(task.query, stream.task(index).query)


def test_another_index_split_or_seed_is_another_task():
    settings = TaskSettings(way=2, shots="fixed:5", query=5)
    streams = [
        TaskStream(make_imageset(), split, settings, seed)
        for split in ("train", "test")
        for seed in (0, 1)
    ]
    tasks = [stream.task(index) for stream in streams for index in range(3)]
    assert len({task.support.numpy().tobytes() for task in tasks}) == 12


def test_the_numbers_behind_tasks_and_noise_never_change():
    """Published results name their tasks by seed, split and number, and must find them again."""
    noise = replace(make_task(), seed=(7, "test", 3)).noise()
    assert torch.randint(0, 1000, (4,), generator=noise).tolist() == [633, 264, 958, 588]


def numbered(counts: dict[str, int]) -> ImageSet:
    """Each image is filled with its own number, so that it can be told apart."""
    arrays, n = {}, 0
    for name, count in counts.items():
        arrays[name] = np.arange(n, n + count, dtype=np.uint8)[:, None, None, None] * np.ones(
            (1, 4, 4, 3), np.uint8
        )
        n += count
    return ImageSet.from_arrays("numbered", arrays, {"train": list(counts)})


def test_support_and_query_never_share_an_image_and_a_small_class_keeps_its_query():
    stream = TaskStream(
        numbered({"a": 60, "b": 20, "c": 5, "d": 2}), "train", TaskSettings(way=4, shots="fixed:50")
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


def test_what_the_classes_do_not_allow_is_said_with_what_is_drawn_instead():
    small = numbered({"a": 8, "b": 8, "c": 17, "d": 40})
    stream = TaskStream(small, "train", TaskSettings(way=4, shots="fixed:5"))
    assert stream.size_warnings() == [
        "numbered: 3 of 4 train classes are too small for fixed:5 beside 15 query images: one of 8 images gives at "
        "most 1 support and 7 query images, one of 17 images gives at most 2 support and 15 query images."
    ]
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
    assert "one of 40 images gives at most 25 support and 15 query images" in sentence


def test_classes_that_are_large_enough_need_no_words():
    enough = numbered({"a": 20, "b": 20})
    assert (
        TaskStream(enough, "train", TaskSettings(way=2, shots="any-shot:1-5")).size_warnings() == []
    )
    assert (
        len(TaskStream(enough, "train", TaskSettings(way=2, shots="any-shot:1-6")).size_warnings())
        == 1
    )
    both = TaskStream(
        [enough, numbered({"c": 3, "d": 3})], "train", TaskSettings(way=2, shots="fixed:1", query=2)
    )
    assert both.size_warnings() == []
    assert both.class_names() == ("a", "b", "c", "d")


def test_too_few_classes_or_images_are_refused():
    with pytest.raises(AnyshotError, match="has 2 classes in its train split, but a task needs 5"):
        TaskStream(numbered({"a": 5, "b": 5}), "train")
    with pytest.raises(AnyshotError, match="fewer than two images"):
        TaskStream(numbered({"a": 5, "b": 1}), "train", TaskSettings(way=2))
    with pytest.raises(AnyshotError, match="0 classes in its test split"):
        TaskStream(numbered({"a": 5, "b": 5}), "test", TaskSettings(way=2))


def test_several_image_sets_come_at_random_or_in_turn():
    sets = [make_imageset(name=n, images=6) for n in ("one", "two", "three")]
    settings = TaskSettings(way=2, shots="fixed:1", query=1)
    in_turn = TaskStream(sets, "train", settings, mixing="turn", run=2)
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
def test_a_task_knows_whether_its_images_may_be_mirrored(kind, mirrors):
    imageset = replace(make_imageset(), kind=kind)
    assert TaskStream(imageset, "train", TaskSettings(way=2)).task(0).flip_invariant is mirrors


def test_augmented_tasks_are_the_same_tasks_with_other_images():
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
