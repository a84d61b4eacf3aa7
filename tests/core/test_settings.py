import dataclasses

import pytest

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings


def test_settings_survive_json():
    import json

    settings = Settings(
        images=("a", "b"), method=MethodSettings(balance=("omega",), gains=(1.0, 0.1, 0.03))
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
        (MethodSettings, {"balance": ("omega", "beta")}, "balance cannot be 'beta'"),
        (TaskSettings, {"way": 1}, "way is 1, but must be at least 2"),
        (TrainSettings, {"iterations": 0}, "iterations is 0"),
        (TrainSettings, {"rate": float("nan")}, "rate is nan, but must be at least 0"),
        (TrainSettings, {"rate": "fast"}, "rate is 'fast', but must be of type float"),
        (MethodSettings, {"centre": 1}, "centre is 1, but must be of type bool"),
        (TaskSettings, {"way": True}, "way is True, but must be of type int"),
        (MethodSettings, {"order": 3}, "order cannot be 3"),
        (MethodSettings, {"statistics": ()}, "statistics is empty"),
        (MethodSettings, {"gains": (1.0, 2.0)}, "gains is .* three numbers"),
        (MethodSettings, {"gains": (1.0, 2.0, -1.0)}, "gains is -1.0, but must be above 0"),
        (MethodSettings, {"gains": (float("nan"), 1.0, 1.0)}, "gains is nan, but must be above 0"),
        (
            MethodSettings,
            {"gains": (float("inf"), 1.0, 1.0)},
            "gains is inf, but must be a number of at most",
        ),
        (
            MethodSettings,
            {"gains": (True, 1.0, 1.0)},
            "each of gains is True, but must be of type float",
        ),
        (MethodSettings, {"deviation": 0.0}, "deviation is 0.0, but must be above 0"),
        (MethodSettings, {"deviation_head": -0.1}, "deviation_head is -0.1, but must be above 0"),
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
    with pytest.raises(AnyshotError, match=sentence):
        part(**values)


@pytest.mark.parametrize("values", [[], "x", None, {"train": 3}, {"task": ["way"]}, {3: 4}])
def test_what_is_no_mapping_of_settings_is_refused(values):
    with pytest.raises(AnyshotError):
        Settings.from_dict(values)


def test_a_seed_may_be_any_64_bit_number():
    assert TrainSettings(seed=2**63).seed == 2**63


def test_every_option_explains_itself():
    for part in (TaskSettings, MethodSettings, TrainSettings):
        for field in dataclasses.fields(part):
            assert field.metadata["help"].endswith("."), field.name


def test_a_whole_number_will_do_for_a_real_one():
    assert Settings(train=TrainSettings(rate=1, clip=3)).train.rate == 1


def test_settings_can_be_told_apart_and_grouped():
    one, other = (
        Settings(method=MethodSettings(name="own.py:M", options={"factor": f})) for f in (1, 2)
    )
    assert len({Settings(), Settings(), one, other}) == 3
