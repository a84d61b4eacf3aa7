"""The presets beside the paper's table, value by value; where the paper is silent, its authors' experiment is meant."""

from __future__ import annotations

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.data.published import CATALOGUE
from anyshot.methods import METHODS, create_method
from anyshot.training.presets import preset

# what all three settings of the paper share; whatever the paper does not have is off
TASK = {"shots": "any-shot:1-50", "query": 15}
METHOD = {
    "name": "taml", "options": {}, "body": "conv4", "channels": None, "steps": 5, "test_steps": 10, "order": 2,
    "alpha": None, "alpha_head": None, "start": "paper", "centre": False, "transductive": True, "head": "zero",
    "flips": False, "zooms": (), "class_mean": False, "balance": ("omega", "gamma", "z"), "bayesian": True,
    "prediction": "mc",
    "samples": 10, "deviation": 0.01, "deviation_head": None, "zeta": 0.0, "z_site": "weight", "hierarchical": True,
    "statistics": ("mean", "var", "N"), "task_cardinality": "shots", "cardinality": "linear", "omega_prior": None,
    "gains": (),
}  # fmt: skip
OF_OTHER_HEADS = {"head_scale", "head_kappa"}  # of no effect where the head starts at zero
TRAIN = {
    "decay": "none", "rising": 0, "body_rate": 1.0, "clip": 3.0, "body_from": None, "first_order_until": 0,
    "average": 0.0, "augment": (), "calibrate": False, "validate_by": "naive", "validate_every": 10_000,
    "validation_tasks": 3_000, "patience": 0, "select": "id+ood", "checkpoint_every": 100, "seed": 0,
}  # fmt: skip
# learn from, out-of-distribution validation, pixels, way, iterations, meta-batch, Adam's rate, hidden units before ω
PAPER = {
    "cifar-fs": (("cifar-fs",), ("svhn",), 32, 5, 50_000, 4, 1e-3, 64),
    "miniimagenet": (("miniimagenet",), ("cub",), 84, 5, 80_000, 1, 1e-4, 64),
    "multi": (("aircraft", "quickdraw", "vgg-flower"), (), 32, 10, 60_000, 3, 1e-3, 0),
}
# step sizes at the start
ALPHA = {
    "cifar-fs": {"maml": 0.5, "meta-sgd": 0.01, "mt-net": 0.5, "proto-maml": 0.0005, "taml": 0.01},
    "miniimagenet": {
        "maml": 0.1,
        "meta-sgd": 0.01,
        "mt-net": 0.1,
        "proto-maml": 0.0005,
        "taml": 0.01,
    },
    "multi": {"maml": 0.5, "meta-sgd": 0.01, "mt-net": 0.5, "proto-maml": 0.01, "taml": 0.01},
}


def values_of(name: str) -> dict:
    """Every setting but those of no effect."""
    found = preset(name).as_dict()
    return {
        **found,
        "method": {
            key: value for key, value in found["method"].items() if key not in OF_OTHER_HEADS
        },
    }


@pytest.mark.parametrize("name", PAPER)
def test_a_preset_of_the_paper_has_its_values(name):
    images, ood, side, way, iterations, meta_batch, rate, hidden = PAPER[name]
    found = values_of(name)
    assert (found["images"], found["ood"]) == (images, ood)
    assert found["task"] == {**TASK, "way": way}
    assert found["method"] == {**METHOD, "omega_hidden": hidden}
    assert found["train"] == {
        **TRAIN,
        "iterations": iterations,
        "meta_batch": meta_batch,
        "rate": rate,
    }
    assert {CATALOGUE[one].side for one in (*images, *ood)} == {side}


def test_several_image_sets_of_the_paper_come_in_turn():
    assert preset("multi").mixing == "turn"


@pytest.mark.parametrize("name", PAPER)
def test_every_methods_step_sizes_are_those_of_the_paper_everywhere(name):
    for method, alpha in ALPHA[name].items():
        rates = create_method(preset(name, method).method, (16, 16)).rates()
        for parameter, rate in rates.items():
            assert rate.min().item() == rate.max().item() == pytest.approx(alpha), (
                method,
                parameter,
            )


@pytest.mark.parametrize("name", [*PAPER, "glyphs"])
def test_methods_differ_in_nothing_but_their_name_and_what_the_table_of_exceptions_says(name):
    own = {
        ("glyphs", "maml"): {"alpha": 0.1},
        ("glyphs", "proto-maml"): {"alpha": 0.01, "alpha_head": 0.01},
        ("glyphs", "abml"): {"deviation": 0.02, "deviation_head": 0.2},
        **{("miniimagenet", method): {"alpha": 0.1} for method in ("maml", "mt-net", "abml")},
        ("multi", "proto-maml"): {"alpha": 0.01},
    }
    base = preset(name, "taml").as_dict()
    for method in METHODS:
        expected = {
            **base,
            "method": {**base["method"], "name": method, **own.get((name, method), {})},
        }
        assert preset(name, method).as_dict() == expected


def test_the_embedded_glyphs_have_a_preset_that_learns_in_minutes():
    found = values_of("glyphs")
    assert (found["images"], found["ood"]) == (("glyphs",), ())
    assert found["task"] == {**TASK, "way": 5}
    changed = {
        "start": "he",
        "centre": True,
        "alpha": 0.01,
        "alpha_head": 1.0,
        "gains": (2.0, 0.1, 0.03),
    }
    own = {
        "head": "shrunk-prototypes",
        "omega_prior": 1.0,
        "cardinality": "log",
        "zooms": (0.87, 1.15),
    }
    assert found["method"] == {**METHOD, "omega_hidden": 64, **changed, **own}
    assert preset("glyphs").method.head_kappa == 3.0
    short = {
        "iterations": 100,
        "meta_batch": 4,
        "rate": 2e-3,
        "decay": "cosine",
        "validate_every": 50,
    }
    assert found["train"] == {**TRAIN, **short, "validation_tasks": 50, "checkpoint_every": 25}


@pytest.mark.parametrize("images", ["cifar-fs", "miniimagenet"])
@pytest.mark.parametrize(("shots", "meta_batch"), [(1, 4), (5, 2)])
def test_the_protocol_of_published_tables_has_presets(images, shots, meta_batch):
    found = preset(f"{images}-{shots}shot", "maml")
    assert (found.images, found.ood) == ((images,), ())
    assert (found.task.way, found.task.shots, found.task.query) == (5, f"fixed:{shots}", 15)
    assert (found.train.iterations, found.train.meta_batch, found.train.rate) == (
        60_000,
        meta_batch,
        1e-3,
    )
    method = create_method(found.method, (CATALOGUE[images].side,) * 2)
    assert [unit.channels for unit in method.body.layers] == [64] * 4
    assert preset(f"{images}-{shots}shot", "proto-maml").method.alpha_head == 0.01


def test_an_unknown_preset_is_refused():
    with pytest.raises(AnyshotError, match="no preset 'cifar'; did you mean 'cifar-fs'"):
        preset("cifar")
