from __future__ import annotations

from dataclasses import replace

from anyshot.core.settings import Settings, TrainSettings
from anyshot.experiments.protocol import protocol_differences

PAPER = Settings(("cifar-fs",), ("svhn",), train=TrainSettings(iterations=50_000))


def changed(**train) -> Settings:
    return replace(PAPER, train=replace(PAPER.train, **train))


def test_equal_settings_have_no_differences():
    assert protocol_differences([("MAML", PAPER, PAPER)]) == []


def test_seeds_and_checkpoints_are_no_part_of_the_protocol():
    other = changed(seed=4, checkpoint_every=7, body_from="x")
    assert protocol_differences([("MAML", other, PAPER)]) == []


def test_a_difference_of_all_models_names_none():
    used = changed(iterations=2000)
    found = protocol_differences([("MAML", used, PAPER), ("TAML", used, PAPER)])
    assert found == ["iterations 2,000, not 50,000"]


def test_differences_of_some_models_name_each_once():
    models = [
        ("MAML", changed(iterations=200), PAPER),
        ("MAML", changed(iterations=200), PAPER),
        ("TAML", changed(iterations=300), PAPER),
        ("ProtoNet", changed(iterations=200), PAPER),
    ]
    assert protocol_differences(models) == [
        "iterations 200, not 50,000 (MAML, ProtoNet); iterations 300, not 50,000 (TAML)"
    ]


def test_a_model_and_all_its_variants_are_named_once():
    used = changed(iterations=200)
    models = [(name, used, PAPER) for name in ("MAML", "MAML, ROS", "TAML, ROS")]
    others = [(name, PAPER, PAPER) for name in ("TAML", "RFS")]
    assert protocol_differences(models + others) == [
        "iterations 200, not 50,000 (MAML with its variants, TAML, ROS)"
    ]


def test_values_are_described_in_words():
    used = replace(changed(calibrate=not PAPER.train.calibrate), ood=())
    words = {False: "off", True: "on"}
    found = protocol_differences([("MAML", used, PAPER)])
    now, before = words[used.train.calibrate], words[PAPER.train.calibrate]
    assert sorted(found) == [f"calibrate {now}, not {before}", "ood none, not svhn"]
