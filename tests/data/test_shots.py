import numpy as np
import pytest
from support import make_imageset

from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.random import numpy_rng
from anyshot.core.registry import SHOT_RULES
from anyshot.core.settings import TaskSettings
from anyshot.core.task_settings import parse_shots
from anyshot.data.shots import draw_sizes
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
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 45  # 20 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.05


def test_task_imbalance_and_fixed_are_equal_within_a_task():
    even = shots("task-imbalance:1-50")
    assert (np.ptp(even, axis=1) == 0).all()
    assert (even.min(), even.max()) == (1, 50)
    assert (shots("fixed:7", draws=3) == 7).all()
    assert (shots("7", draws=3) == 7).all()
    assert shots("any-shot", draws=500).max() <= 50


# Published sizes for 5 classes: Ochal et al. 2021, https://arxiv.org/abs/2101.02523
@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ("1-9", [1, 3, 5, 7, 9]),
        ("2-8", [2, 3, 5, 7, 8]),
        ("3-7", [3, 4, 5, 6, 7]),
        ("4-6", [4, 4, 5, 6, 6]),
        ("5", [5, 5, 5, 5, 5]),
    ],
)
def test_linear_gives_the_published_sizes(limits, sizes):
    assert (np.sort(shots(f"linear:{limits}", draws=20)) == sizes).all()


def test_linear_long_tailed_and_step_give_every_class_every_size_equally_often():
    for rule in ("linear", "long-tailed", "step"):
        drawn = shots(f"{rule}:1-9")
        share = (drawn == 9).mean(0)  # of tasks in which class c is the largest
        assert np.ptp(share) < 0.05, rule
        assert share.mean() == pytest.approx(0.5 if rule == "step" else 0.2, abs=0.02)


def test_step_draws_the_number_of_minority_classes_uniformly():
    drawn = shots("step:2-30")
    assert set(np.unique(drawn)) == {2, 30}
    minority = np.bincount((drawn == 2).sum(1), minlength=6) / len(drawn)
    assert minority[[0, 5]].tolist() == [0, 0]
    assert minority[1:5] == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(("way", "least", "most"), [(2, 1, 50), (5, 1, 50), (20, 5, 600)])
def test_long_tailed_is_a_power_law_from_most_to_least(way, least, most):
    sizes = np.sort(shots(f"long-tailed:{least}-{most}", way, 1)[0])[::-1]
    assert (sizes[0], sizes[-1]) == (most, least)
    log_rank = np.log(np.arange(1, way + 1))
    slope = np.polyfit(log_rank, np.log(sizes), 1)[0]
    assert slope == pytest.approx(-np.log(most / least) / np.log(way), rel=0.05)


def test_random_keeps_the_total_and_is_uniform_over_all_such_sizes():
    drawn = shots("random:1-4", way=3, draws=9000)
    triples = [(a, b, 7 - a - b) for a in range(1, 5) for b in range(1, 5) if 1 <= 7 - a - b <= 4]
    counts = dict.fromkeys(triples, 0)
    for row in drawn.tolist():
        counts[tuple(row)] += 1
    expected = len(drawn) / len(triples)
    chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi_square < 32  # 12 - 1 degrees of freedom, p = 0.001
    assert (shots("random:1-50", 20, 50).sum(1) == 510).all()


@pytest.mark.parametrize("rule", [name for name in SHOT_RULES if name != "fixed"])
@pytest.mark.parametrize(("way", "limits"), [(2, "1-1"), (2, "1-2"), (7, "3-20"), (100, "1-50")])
def test_sizes_are_in_the_range(rule, way, limits):
    least, most = map(int, limits.split("-"))
    drawn = shots(f"{rule}:{limits}", way, 50)
    assert drawn.shape == (50, way)
    assert least <= drawn.min()
    assert drawn.max() <= most


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
def test_malformed_shots_are_refused(text):
    with pytest.raises(SettingsError):
        parse_shots(text)
    with pytest.raises(SettingsError):
        TaskSettings(shots=text)


@pytest.mark.parametrize(
    "sizes",
    [[3], [2.5, 3.0], [0, 3], None, ["3", "3"]],
    ids=["one", "floats", "zero", "none", "text"],
)
def test_a_rule_of_your_own_must_give_a_positive_integer_for_each_class(sizes):
    def own(rng, way, least, most):
        return sizes

    with pytest.raises(CodeError, match=r"'own'.* 2 integers of at least 1"):
        draw_sizes(own, numpy_rng(0), 2, 1, 5)


def test_a_rule_of_your_own_may_return_a_list():
    assert draw_sizes(lambda rng, way, least, most: [most] * way, numpy_rng(0), 3, 1, 5).sum() == 15


def test_a_rule_with_other_arguments_is_refused_by_the_stream(monkeypatch):
    monkeypatch.setattr(SHOT_RULES, "_registered", {"own": lambda way: [1] * way})
    with pytest.raises(CodeError, match=r"\(rng, way, least, most\)"):
        TaskStream(make_imageset(), "train", TaskSettings(way=2, shots="own:1-5"))
