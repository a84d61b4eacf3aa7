"""A teacher in pre-training."""

from __future__ import annotations

import os

import pytest
import torch
from support import assert_equal, make_imageset
from tiny_runs import pretrain_tiny as run
from tiny_runs import tiny_pretraining as tiny

from anyshot.core.errors import RunError
from anyshot.runs.run import Run
from anyshot.training.distillation import Teacher, distillation_loss
from anyshot.training.loop import TrainContext
from anyshot.training.pretraining import Pretraining


def tensors(folder) -> dict[str, torch.Tensor]:
    return Run(folder).latest_checkpoint().tensors


def test_the_loss_is_half_the_labels_and_half_the_teachers_probabilities():
    generator = torch.Generator().manual_seed(0)
    scores, teacher = torch.randn(2, 6, 5, generator=generator, dtype=torch.float64) * 3
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    expected = 0.0
    for s, t, label in zip(scores.tolist(), teacher.tolist(), labels.tolist(), strict=True):
        p = torch.tensor(s, dtype=torch.float64).softmax(0)
        soft, target = (torch.tensor([v / 4 for v in values]).softmax(0) for values in (s, t))
        divergence = sum(b * torch.log(b / a) for a, b in zip(soft, target, strict=True))
        expected += float(-0.5 * p[label].log() + 8 * divergence) / 6
    assert distillation_loss(scores, teacher, labels).item() == pytest.approx(expected, rel=1e-5)


def test_a_student_approaches_its_teacher(tmp_path):
    """Its softened probabilities are closer to the teacher's than those of a run without one."""
    images = [make_imageset(classes=24)]
    teacher = run(tiny(epochs=8), tmp_path / "teacher", images)
    settings = tiny(epochs=8, seed=1, teacher=str(tmp_path / "teacher"))
    student = run(settings, tmp_path / "student", images, device="auto")
    alone = run(tiny(epochs=8, seed=1), tmp_path / "alone", images)
    x = torch.from_numpy(images[0].images[:60].copy()).permute(0, 3, 1, 2) / 255.0
    target = Teacher(str(teacher.folder), student).scores(x).div(4).softmax(1)
    taught, untaught = (
        (Teacher(str(made.folder), teacher).scores(x).div(4).softmax(1) - target).abs().mean()
        for made in (student, alone)
    )
    assert taught < 0.8 * untaught


def test_a_student_resumes_to_the_same_bits_and_only_with_its_teacher(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tiny(), "teacher")
    run(tiny(seed=5), "other")
    settings = tiny(epochs=4, teacher="teacher")
    run(settings, "student")

    def stop(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, "stopped", callback=stop)
    os.makedirs("elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")  # the path of the teacher was made absolute
    stored = Run(tmp_path / "stopped").settings
    run(stored, tmp_path / "stopped")
    assert_equal(tensors(tmp_path / "stopped"), tensors(tmp_path / "student"))

    checkpoint = Run(tmp_path / "student").latest_checkpoint()
    other = Run.open_or_create(
        tmp_path / "changed",
        tiny(epochs=4, teacher=str(tmp_path / "other")),
        (16, 16),
        sets=Run(tmp_path / "student").sets,
    )
    with pytest.raises(RunError, match="another run than when this one started"):
        Pretraining(other, [make_imageset()], [], TrainContext(workers=1)).load(checkpoint)


def test_what_is_no_teacher_is_refused(tmp_path):
    run(tiny(), tmp_path / "classes", [make_imageset(classes=9)])
    with pytest.raises(RunError, match="was trained on other classes than this run"):
        run(tiny(teacher=str(tmp_path / "classes")), tmp_path / "a")

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny(), tmp_path / "unfinished", callback=stop)
    with pytest.raises(RunError, match="is no finished pre-training"):
        run(tiny(teacher=str(tmp_path / "unfinished")), tmp_path / "b")
    with pytest.raises(RunError, match="There is no run in"):
        run(tiny(teacher=str(tmp_path / "nothing")), tmp_path / "c")
