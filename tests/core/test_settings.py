import dataclasses
import json
from pathlib import Path

import pytest

from anyshot.core.builtin_options import (
    BUILTIN_OPTIONS,
    ABMLOptions,
    TAMLOptions,
)
from anyshot.core.errors import AnyshotError, SettingsError
from anyshot.core.options import check_fields
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
    TaskSettings,
    TrainSettings,
)


def test_settings_survive_json():
    settings = Settings(
        images=("a", "b"),
        method=MethodSettings(options={"balance": ("omega",), "gains": (1.0, 0.1, 0.03)}),
    )
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_an_unknown_key_is_an_error_with_a_suggestion():
    with pytest.raises(AnyshotError, match="did you mean 'meta_batch'"):
        Settings.from_dict({"train": {"meta_bach": 2}})
    with pytest.raises(AnyshotError, match="there are way, shots, query"):
        Settings.from_dict({"task": {"zzz": 2}})


@pytest.mark.parametrize(
    ("part", "values", "sentence"),
    [
        (MethodSettings, {"name": "mamel"}, "name cannot be 'mamel'; did you mean 'maml'"),
        (TAMLOptions, {"balance": ("omega", "beta")}, "balance cannot be 'beta'"),
        (TaskSettings, {"way": 1}, "way is 1, but must be at least 2"),
        (TrainSettings, {"iterations": -1}, "iterations is -1"),
        (TrainSettings, {"rate": float("nan")}, "rate is nan, but must be at least 0"),
        (TrainSettings, {"rate": "fast"}, "rate is 'fast', but must be of type float"),
        (MethodSettings, {"centre": 1}, "centre is 1, but must be of type bool"),
        (TaskSettings, {"way": True}, "way is True, but must be of type int"),
        (MethodSettings, {"order": 3}, "order cannot be 3"),
        (TAMLOptions, {"statistics": ()}, "statistics is empty"),
        (TAMLOptions, {"gains": (1.0, 2.0)}, "gains is .* three numbers"),
        (TAMLOptions, {"gains": (1.0, 2.0, -1.0)}, "gains is -1.0, but must be above 0"),
        (TAMLOptions, {"gains": (float("nan"), 1.0, 1.0)}, "gains is nan, but must be above 0"),
        (
            TAMLOptions,
            {"gains": (float("inf"), 1.0, 1.0)},
            "gains is inf, but must be a number of at most",
        ),
        (
            TAMLOptions,
            {"gains": (True, 1.0, 1.0)},
            "each of gains is True, but must be of type float",
        ),
        (ABMLOptions, {"deviation": 0.0}, "deviation is 0.0, but must be above 0"),
        (ABMLOptions, {"deviation_head": -0.1}, "deviation_head is -0.1, but must be above 0"),
        (MethodSettings, {"alpha": float("nan")}, "alpha is nan, but must be at least 0"),
        (MethodSettings, {"alpha": -1}, "alpha is -1, but must be at least 0"),
        (MethodSettings, {"alpha_head": float("inf")}, "alpha_head is inf"),
        (
            TrainSettings,
            {"rate": float("inf")},
            "rate is inf, but must be a number of at most 1,000,000,000",
        ),
        (TrainSettings, {"clip": float("inf")}, "clip is inf"),
        (TrainSettings, {"clip": 0}, "clip is 0, but must be above 0"),
        (
            TrainSettings,
            {"iterations": 10**12},
            "iterations is 1000000000000, but must be a number of at most",
        ),
        (Settings, {"images": ("glyphs", "")}, "images is empty; give a value"),
        (Settings, {"images": (3,)}, "each of images is 3, but must be of type str"),
        (TaskSettings, {"shots": ""}, "shots is empty"),
        (Settings, {"images": ()}, "images is empty"),
    ],
)
def test_a_wrong_value_is_refused_with_a_sentence(part, values, sentence):
    with pytest.raises(SettingsError, match=sentence):
        check_fields(part(**values))


@pytest.mark.parametrize("values", [[], "x", None, {"train": 3}, {"task": ["way"]}, {3: 4}])
def test_what_is_no_mapping_of_settings_is_refused(values):
    with pytest.raises(AnyshotError):
        Settings.from_dict(values)


def test_a_seed_may_be_any_64_bit_number():
    assert TrainSettings(seed=2**63).seed == 2**63


def test_every_option_explains_itself():
    parts = (TaskSettings, MethodSettings, TrainSettings, PretrainSettings)
    for part in (*parts, *BUILTIN_OPTIONS.values()):
        for field in dataclasses.fields(part):
            assert field.metadata["help"].endswith("."), field.name


def test_a_whole_number_will_do_for_a_real_one():
    assert Settings(train=TrainSettings(rate=1, clip=3)).train.rate == 1


def test_settings_can_be_compared_and_grouped():
    one, other = (
        Settings(method=MethodSettings(name="own.py:M", options={"factor": f})) for f in (1, 2)
    )
    assert len({Settings(), Settings(), one, other}) == 3


# ------------------------------------------------------------------------------- unknown names
@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        (MethodSettings, {"nmae": "maml"}, ["MethodSettings", "'nmae'", "'name'"]),
        (MethodSettings, {"zeta": 4.0}, ["'zeta'", "mt-net", "options="]),
        (TrainSettings, {"iteration": 3}, ["'iteration'", "'iterations'"]),
        (Settings, {"image": ("x",)}, ["'image'", "'images'"]),
    ],
)
def test_an_unknown_argument_is_named_with_a_suggestion(part, values, words):
    with pytest.raises(SettingsError) as error:
        part(**values)
    assert [word for word in words if word not in str(error.value)] == []


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("maml", {"zeta": 4.0}, ["maml", "'zeta'", "mt-net"]),
        ("abml", {"bayesian": False}, ["abml", "'bayesian'", "taml"]),
        ("taml", {"sample": 3}, ["'sample'", "'samples'"]),
        ("protonet", {"factor": 3}, ["protonet", "'factor'"]),
    ],
)
def test_an_option_of_another_method_is_refused(method, options, words):
    with pytest.raises(SettingsError) as error:
        MethodSettings(name=method, options=options)
    assert [word for word in words if word not in str(error.value)] == []


# ------------------------------------------------------------------------------- options of methods
def test_options_at_their_defaults_are_the_same_settings():
    assert MethodSettings(options={"samples": 10}) == MethodSettings()
    assert Settings(method=MethodSettings()).as_dict()["method"]["options"]["samples"] == 10


def test_values_of_shared_settings_and_of_options_are_set_alike():
    found = MethodSettings().with_values({"alpha": 0.3, "samples": 2})
    assert (found.alpha, found.options) == (0.3, {"samples": 2})
    with pytest.raises(SettingsError, match="zeta"):
        found.with_values({"zeta": 1.0})
    assert found.with_values({"zeta": 1.0}, skip_unused=True) == found
    assert found.with_values({"name": "maml"}).options == {}


@pytest.mark.parametrize(
    ("part", "values"),
    [
        (TrainSettings, {"meta_batch": 10**9}),
        (TaskSettings, {"way": 10**8}),
        (TaskSettings, {"query": 10**9}),
        (MethodSettings, {"channels": 10**6}),
        (MethodSettings, {"steps": 10**9}),
        (TAMLOptions, {"samples": 10**9}),
        (PretrainSettings, {"batch": 10**9}),
    ],
)
def test_sizes_that_no_memory_holds_are_refused(part, values):
    ((name, value),) = values.items()
    with pytest.raises(SettingsError, match=f"{name} is {value}, but must be a number of at most"):
        check_fields(part(**values))


# ------------------------------------------------------------------------------- earlier versions
OLD_METHOD = {
    "name": "taml", "options": {}, "body": "conv4", "channels": None, "steps": 5, "test_steps": 20,
    "order": 2, "alpha": 0.03, "alpha_head": 1.0, "start": "paper", "centre": True,
    "transductive": True, "head": "shrunk-prototypes", "head_scale": 0.1, "head_kappa": 3.0,
    "flips": True, "zooms": [0.75, 1.3], "class_mean": False, "balance": ["omega", "gamma", "z"],
    "bayesian": True, "prediction": "mc", "samples": 10, "deviation": 0.01, "deviation_head": None,
    "zeta": 0.0, "z_site": "weight", "hierarchical": True, "statistics": ["mean", "var", "N"],
    "task_cardinality": "shots", "cardinality": "log", "omega_prior": 1.25, "omega_hidden": 64,
    "gains": [1.0, 0.3, 0.1],
}  # fmt: skip
OLD_TRAIN = {
    "iterations": 200, "meta_batch": 4, "rate": 0.001, "decay": "cosine", "rising": 0,
    "body_rate": 0.0, "clip": 3.0, "body_from": None, "first_order_until": 0, "average": 0.0,
    "augment": ["auto", "crop", "colour"], "calibrate": True, "validate_by": "naive",
    "validate_every": 100, "validation_tasks": 100, "patience": 0, "select": "id+ood",
    "checkpoint_every": 25, "seed": 3,
}  # fmt: skip
OLD_PRETRAIN = {
    "epochs": 60, "batch": 128, "parts": 2, "rate": 0.2, "schedule": "one-cycle", "momentum": 0.9,
    "weight_decay": 5e-4, "label_smoothing": 0.0, "rotations": "none", "augment": ["auto"],
    "average": 0.0, "check_every": 20, "check_tasks": 100,
}  # fmt: skip


def test_settings_of_an_earlier_version_load():
    old = {"images": ["cifar-fs"], "method": OLD_METHOD, "train": OLD_TRAIN, "warm": None}
    found = Settings.from_dict(old)
    assert found.method == MethodSettings(
        test_steps=20, alpha=0.03, alpha_head=1.0, centre=True, flips=True, zooms=(0.75, 1.3),
        options={"head": "shrunk-prototypes", "head_kappa": 3.0, "cardinality": "log",
                 "omega_prior": 1.25, "gains": (1.0, 0.3, 0.1)},
    )  # fmt: skip
    assert (found.train.iterations, found.train.seed, found.pretrain) == (200, 3, None)
    assert old["method"] is OLD_METHOD
    assert "head_scale" in OLD_METHOD  # what was read is left as it was


def test_a_method_of_an_earlier_version_keeps_the_options_that_it_has():
    old = {"method": {**OLD_METHOD, "name": "abml", "deviation": 0.02}}
    assert Settings.from_dict(old).method.options == {"deviation": 0.02}
    old = {"method": {**OLD_METHOD, "name": "own.py:Mine"}}
    assert Settings.from_dict(old).method.options["omega_prior"] == 1.25


def test_a_warm_start_of_an_earlier_version_is_a_run_of_pretraining_alone():
    found = Settings.from_dict({"train": OLD_TRAIN, "warm": OLD_PRETRAIN})
    assert found.pretrains_only
    assert (found.pretrain.epochs, found.pretrain.seed) == (60, 3)


@pytest.mark.parametrize(
    "old",
    [
        {"method": {**OLD_METHOD, "head_scale": 0.7}},
        {"train": {**OLD_TRAIN, "average": 0.9}},
        {"warm": {**OLD_PRETRAIN, "rotations": "task"}},
    ],
)
def test_an_option_that_no_longer_exists_is_refused_unless_it_was_off(old):
    with pytest.raises(SettingsError, match="no longer has"):
        Settings.from_dict(old)


def test_the_bundled_runs_have_the_settings_of_this_version():
    import anyshot

    files = sorted(Path(anyshot.__file__).parent.glob("runs/weights/*/config.json"))
    recorded = [json.loads(file.read_text()).get("settings") for file in files]
    assert len([values for values in recorded if values]) == 5
    for values in recorded:
        if values:
            assert json.loads(json.dumps(Settings.from_dict(values).as_dict())) == values
