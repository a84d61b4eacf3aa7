from dataclasses import replace

import numpy as np
import pytest
import torch
from support import make_imageset, make_method, make_task
from tiny_runs import tiny

from anyshot.core.errors import AnyshotError
from anyshot.evaluation.temperature import fit_temperature
from anyshot.methods.base import apply_temperature
from anyshot.runs.run import Run
from anyshot.training.meta_training import MetaTraining
from anyshot.training.stages import train


def overconfident(
    seed: int = 0, true: float = 2.5, n: int = 400
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Tasks whose labels follow the probabilities at temperature `true` instead of 1."""
    rng = np.random.default_rng(seed)
    probabilities, labels = [], []
    for way in (2, 5):
        logits = rng.normal(0, 3, (n, way))
        p = np.exp(logits / true) / np.exp(logits / true).sum(1, keepdims=True)
        labels.append(np.array([rng.choice(way, p=row) for row in p]))
        probabilities.append(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    return probabilities, labels


def test_the_fitted_temperature_minimises_the_loss():
    probabilities, labels = overconfident()
    actual = fit_temperature(probabilities, labels)
    assert actual == pytest.approx(2.5, rel=0.15)

    def nll(temperature: float) -> float:
        losses = [
            -apply_temperature(torch.from_numpy(p), temperature).log()[
                torch.arange(len(y)), torch.from_numpy(y)
            ]
            for p, y in zip(probabilities, labels, strict=True)
        ]
        return torch.cat(losses).mean().item()

    assert all(nll(actual) <= nll(other) for other in actual * np.geomspace(0.5, 2, 41))


def test_tempered_probabilities_are_the_softmax_at_that_temperature():
    logits = torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(apply_temperature(logits.softmax(1), 1.7), (logits / 1.7).softmax(1))
    p = torch.tensor([[1.0, 0.0]])
    assert apply_temperature(p, 1.0) is p
    assert apply_temperature(p, 2.0).isfinite().all()


@pytest.mark.parametrize("name", ["taml", "protonet"])
def test_a_methods_probabilities_are_those_at_its_temperature(name):
    method, task = make_method(name), make_task()
    plain = method.predict(task)
    method.temperature = 3.0
    torch.testing.assert_close(method.predict(task), apply_temperature(plain, 3.0))


def test_a_run_keeps_the_temperature_of_its_best_parameters(tmp_path):
    made = train(
        tiny("maml", iterations=2, calibrate=True), tmp_path, imagesets=[make_imageset()], ood=[]
    )
    (record,) = made.records("calibration")
    best = made.best().state
    assert record["temperature"] == best["temperature"] == made.load_method().temperature
    assert record["iteration"] == best["iteration"]
    stream = MetaTraining(made, [make_imageset()]).validation["tiny"]
    method = made.load_method()
    method.temperature = 1.0
    tasks = [stream.task(i) for i in range(3)]
    answers = [method.predict(task, prediction="naive").numpy() for task in tasks]
    assert best["temperature"] == pytest.approx(
        fit_temperature(answers, [t.query_labels.numpy() for t in tasks])
    )


def test_a_run_killed_during_calibration_gives_the_same_result(tmp_path, monkeypatch):
    settings = tiny("maml", iterations=1, calibrate=True)
    whole = train(settings, tmp_path / "whole", imagesets=[make_imageset()], ood=[])
    honest = MetaTraining.calibrate
    for owner, last_word in ((Run, "save_best"), (MetaTraining, "save_checkpoint")):
        folder = tmp_path / last_word

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:

            def calibrate(self, patch=patch, owner=owner, last_word=last_word):
                patch.setattr(owner, last_word, die)
                honest(self)

            patch.setattr(MetaTraining, "calibrate", calibrate)
            with pytest.raises(KeyboardInterrupt):
                train(settings, folder, imagesets=[make_imageset()], ood=[])
        again = train(settings, folder, imagesets=[make_imageset()], ood=[])
        assert list(again.records()) == list(whole.records())
        assert again.best().state == whole.best().state


def test_calibration_needs_validation_classes(tmp_path):
    images = replace(make_imageset(), splits={"train": tuple(range(12))})
    with pytest.raises(AnyshotError, match="--calibrate"):
        train(tiny("maml", calibrate=True), tmp_path / "run", imagesets=[images], ood=[])
