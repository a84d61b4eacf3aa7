"""The presets against the paper's table; where the paper is silent, the authors' code counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.data.published import CATALOGUE
from anyshot.methods import METHODS, create_method
from anyshot.training.presets import preset

# what all three settings of the paper share; whatever the paper does not have is off
TASK = {"shots": "any-shot:1-50", "query": 15}
OPTIONS = {
    "stored_statistics": False, "norm_prior": 0.0,
    "head": "zero", "class_mean": False, "balance": ("omega", "gamma", "z"), "bayesian": True,
    "prediction": "mc", "samples": 10, "z_site": "weight", "hierarchical": True,
    "statistics": ("mean", "var", "N"), "encoder": "convolutional", "pooling": "statistics",
    "cardinality": "linear", "omega_prior": None, "gains": (),
    "evidence": False, "encoder_rate": 1.0, "divide_by_shots": False,
}  # fmt: skip
METHOD = {
    "name": "taml", "body": "conv4", "channels": None, "adapt_body": True, "steps": 5,
    "test_steps": 10, "order": 2,
    "alpha": None, "alpha_head": None, "start": "paper", "centre": False, "transductive": True,
    "flips": False, "zooms": (), "shift": 0, "average_views": "probabilities",
    "remedy": "none",
}  # fmt: skip
TRAIN = {
    "decay": "none", "body_rate": 1.0, "clip": 3.0, "body_from": None, "augment": (),
    "calibrate": False, "validate_by": "naive", "validate_every": 10_000,
    "validation_tasks": 3_000, "patience": 0, "select": "id+ood", "checkpoint_every": 100,
    "seed": 0,
}  # fmt: skip
# training sets, OOD validation, pixels, way, iterations, meta-batch, learning rate, hidden units
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


def options_of(values: dict) -> dict:
    """The options of TAML but κ, which has no effect on a zero head."""
    return {k: v for k, v in values["method"].pop("options").items() if k != "head_kappa"}


@pytest.mark.parametrize("name", PAPER)
def test_a_preset_of_the_paper_has_its_values(name):
    images, ood, side, way, iterations, meta_batch, rate, hidden = PAPER[name]
    found = preset(f"{name}-paper").as_dict()
    assert (found["images"], found["ood"], found["pretrain"]) == (images, ood, None)
    assert found["task"] == {**TASK, "way": way}
    assert options_of(found) == {**OPTIONS, "omega_hidden": hidden}
    assert found["method"] == METHOD
    assert found["train"] == {
        **TRAIN,
        "iterations": iterations,
        "meta_batch": meta_batch,
        "rate": rate,
    }
    assert {CATALOGUE[one].side for one in (*images, *ood)} == {side}


def test_the_papers_multi_setting_takes_its_image_sets_in_turn():
    assert preset("multi-paper").mixing == "turn"


@pytest.mark.parametrize("name", PAPER)
def test_the_inner_learning_rates_are_the_papers(name):
    for method, alpha in ALPHA[name].items():
        rates = create_method(preset(f"{name}-paper", method).method, (16, 16)).rates()
        for parameter, rate in rates.items():
            assert rate.min().item() == rate.max().item() == pytest.approx(alpha), (
                method,
                parameter,
            )


@pytest.mark.parametrize("name", ["cifar-fs-paper", "miniimagenet-paper", "multi-paper", "glyphs"])
def test_methods_differ_in_their_name_and_their_exceptions_alone(name):
    exceptions = {
        ("glyphs", "maml"): {"alpha": 0.1},
        ("glyphs", "proto-maml"): {"alpha": 0.01, "alpha_head": 0.01},
        ("glyphs", "abml"): {"deviation": 0.02, "deviation_head": 0.2},
        **{("miniimagenet-paper", m): {"alpha": 0.1} for m in ("maml", "mt-net", "abml")},
        ("multi-paper", "proto-maml"): {"alpha": 0.01},
    }
    base = preset(name)
    for method in METHODS:
        changes = {"name": method, **exceptions.get((name, method), {})}
        assert preset(name, method) == replace(base, method=base.method.with_values(changes))


def test_the_glyphs_preset_has_the_recipes_head_and_trains_in_minutes():
    found = preset("glyphs")
    assert found.train.iterations == 100
    assert found.pretrain is None
    options = found.method.all_options()
    assert (options["head"], options["head_kappa"]) == ("shrunk-prototypes", 3.0)
    assert preset("pictures") == found


@pytest.mark.parametrize("images", ["cifar-fs", "miniimagenet"])
@pytest.mark.parametrize(("shots", "meta_batch"), [(1, 4), (5, 2)])
def test_the_few_shot_protocol_has_presets(images, shots, meta_batch):
    found = preset(f"{images}-{shots}shot", "maml")
    assert (found.images, found.ood) == ((images,), ())
    assert (found.task.way, found.task.shots, found.task.query) == (5, f"fixed:{shots}", 15)
    assert (found.train.iterations, found.train.meta_batch, found.train.rate) == (
        60_000,
        meta_batch,
        1e-3,
    )
    method = create_method(found.method, (CATALOGUE[images].side,) * 2)
    assert [layer.channels for layer in method.body.layers] == [64] * 4
    assert preset(f"{images}-{shots}shot", "proto-maml").method.alpha_head == 0.01


def test_an_unknown_preset_is_refused():
    with pytest.raises(AnyshotError, match="no preset 'cifar'; did you mean 'cifar-fs'"):
        preset("cifar")
