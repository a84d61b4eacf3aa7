"""Rows of two results files of one experiment in one table."""

from __future__ import annotations

import copy

import pytest
from merge_results import check_reference, find_best, merge_pairs, rows_of


def results(*models, ahead=0.02):
    """Results whose reference is RFS; each model is better than those before."""
    rows = [
        {
            "model": name,
            "column": "1-shot",
            "reference": "RFS",
            "accuracy": 0.6 + ahead * number,
            "nll": 1.0,
            "tasks": 10,
        }
        for number, name in enumerate(models)
    ]
    pairs = [
        {
            "column": "1-shot",
            "model": one,
            "minus": two,
            "accuracy": ahead * (models.index(one) - models.index(two)),
            "accuracy_interval": 0.01,
        }
        for number, one in enumerate(models)
        for two in models[number + 1 :]
    ]
    return {"results": {"rows": rows, "pairs": pairs}}


def test_pairs_of_replaced_rows_are_dropped_and_others_stay():
    old, new = results("RFS", "MAML", "TAML"), results("RFS", "TAML", ahead=0.05)
    pairs = merge_pairs(old, new, ["RFS", "MAML", "TAML"])
    kept = {key[1:]: pair["accuracy"] for key, pair in pairs.items()}
    assert kept == pytest.approx({("RFS", "MAML"): -0.02, ("RFS", "TAML"): -0.05})


def test_rows_that_the_experiment_no_longer_has_leave_no_pairs():
    old, new = results("RFS", "MAML", "TAML"), results("RFS")
    assert [key[1:] for key in merge_pairs(old, new, ["RFS", "TAML"])] == [("RFS", "TAML")]


def test_a_reference_with_other_numbers_is_refused():
    old = rows_of(results("RFS", "MAML"))
    other = copy.deepcopy(old)
    check_reference(old, other)
    other["RFS", "1-shot"]["accuracy"] += 0.001
    with pytest.raises(SystemExit, match="RFS, 1-shot: another accuracy"):
        check_reference(old, other)


@pytest.mark.parametrize(
    ("ahead", "known", "best"), [(0.02, 3, "C"), (0.005, 3, None), (0.02, 2, None)]
)
def test_the_best_row_is_ahead_in_every_pair_and_all_pairs_are_known(ahead, known, best):
    found = results("RFS", "B", "C", ahead=ahead)
    pairs = merge_pairs(found, results("RFS"), ["RFS", "B", "C"])
    pairs = dict(list(pairs.items())[:known])
    assert find_best(("RFS", "B", "C"), "1-shot", pairs, rows_of(found)) == best
