from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import assert_equal, assert_kills_change_nothing, make_imageset, make_task
from tiny_runs import pretrain_tiny as run
from tiny_runs import tiny_pretraining as tiny

from anyshot.core.errors import SettingsError
from anyshot.core.random import numpy_rng
from anyshot.core.settings import (
    MethodSettings,
    PretrainSettings,
    Settings,
)
from anyshot.data import ImageSet
from anyshot.methods import create_method
from anyshot.models.network import embed
from anyshot.runs.run import Run
from anyshot.training.loop import TrainContext
from anyshot.training.pretraining import Pretraining, one_cycle, prototype_accuracies
from anyshot.training.pretraining_images import PretrainingImages


def make_pretraining(settings: Settings, folder) -> Pretraining:
    run = Run.open_or_create(folder, settings, (16, 16))
    return Pretraining(run, [make_imageset()], [], TrainContext(workers=1))


def tensors(folder) -> dict[str, torch.Tensor]:
    return Run(folder).latest_checkpoint().tensors


def test_the_backbone_learns_to_classify_the_training_classes(tmp_path):
    made = run(tiny(epochs=8), tmp_path, [make_imageset(classes=24)])
    epochs, checks = list(made.records("epoch")), list(made.records("check"))
    assert [record["epoch"] for record in epochs] == list(range(1, 9))
    assert [record["epoch"] for record in checks] == [2, 4, 6, 8]
    assert epochs[-1]["accuracy"] > epochs[0]["accuracy"] + 0.2
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    assert checks[-1]["tiny cosine"] > 0.6  # chance is a half
    assert made.load_method().name == "protonet"


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path):
    for workers in (1, 3):
        run(
            tiny(augment=("auto", "crop", "colour")),
            tmp_path / str(workers),
            workers=workers,
        )
    assert_equal(tensors(tmp_path / "1"), tensors(tmp_path / "3"))
    assert list(Run(tmp_path / "1").records()) == list(Run(tmp_path / "3").records())


def test_a_killed_pretraining_continues_to_the_same_bits(tmp_path):
    call = "training(tiny(epochs=24), run)"
    assert_kills_change_nothing(
        tmp_path,
        "from tiny_runs import pretrain_tiny as training, tiny_pretraining as tiny",
        call,
        clock="epoch",
        end=24,
    )


def test_a_step_is_nesterov_sgd_on_two_halves_with_their_own_statistics(tmp_path):
    """Against torch's own module, normalisation and automatic gradients."""
    settings = tiny(
        augment=(),
        momentum=0.9,
        weight_decay=0.01,
        rate=0.05,
    )
    made = make_pretraining(settings, tmp_path)
    start = [p.detach().clone().requires_grad_() for p in made.parameters]
    names = [name for name, _ in made.method.named_parameters()]
    optimiser = torch.optim.SGD(start, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True)
    order = numpy_rng(0, "warm", 0).permutation(120)
    for step in range(2):
        rows = order[20 * step : 20 * step + 20]
        loss, _ = made.train_batch(rows, step)
        values, total = dict(zip(names, start, strict=False)), 0.0
        for half in (rows[:10], rows[10:]):
            x = torch.from_numpy(make_imageset().images[half]).permute(0, 3, 1, 2) / 255.0
            for layer in range(4):
                y = F.conv2d(x, values[f"theta.conv{layer + 1}_weight"], padding=1)
                shift = values[f"shift.{layer}"]
                y = F.batch_norm(y, None, None, None, shift, True, eps=1e-3)
                x = F.max_pool2d(y.relu(), 2)
            scores = F.linear(x.flatten(1), *start[-2:])
            total = total + F.cross_entropy(scores, torch.from_numpy(half // 30)) / 2
        assert loss == pytest.approx(total.item(), rel=1e-4)
        optimiser.param_groups[0]["lr"] = 0.05 * one_cycle(step / 18)
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
    for name, left, right in zip([*names, "weight", "bias"], made.parameters, start, strict=True):
        torch.testing.assert_close(
            left, right, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_the_learning_rate_rises_for_three_tenths_and_falls_to_zero():
    rates = [one_cycle(p) for p in np.linspace(0, 1, 101)]
    assert np.argmax(rates) == 30
    assert max(rates) == pytest.approx(1)
    assert rates[0] == pytest.approx(0.04)
    assert rates[-1] == pytest.approx(0, abs=1e-9)


# ------------------------------------------------------------------------------- images
def test_the_classes_of_several_image_sets_have_different_labels():
    sets = [make_imageset(), make_imageset(classes=24, name="other")]
    pool = PretrainingImages(sets, PretrainSettings(augment=()))
    assert len(pool) == 4 * 30 + 8 * 30
    assert pool.classes == 12
    images, labels = pool.load_batch(np.array([0, 119, 120, 359]), numpy_rng(0))
    assert labels.tolist() == [0, 3, 4, 11]
    assert (images[1] == sets[0].images_of("class 3")[-1]).all()
    assert (images[2] == sets[1].images_of("class 0")[0]).all()


def test_images_are_flipped_only_where_their_set_allows_it():
    letters = replace(make_imageset(), kind="characters")
    pixels = np.tile(
        np.arange(16, dtype=np.uint8)[:, None], (30, 16, 1, 3)
    )  # brighter to the right
    ramp = dict.fromkeys(letters.classes, pixels)
    for kind, mirrored in (("photographs", True), ("characters", False)):
        images = ImageSet.from_arrays("ramp", ramp, {"train": list(ramp)}, kind=kind)
        found, _ = PretrainingImages([images], PretrainSettings(augment=("auto",))).load_batch(
            np.arange(60), numpy_rng(0)
        )
        falling = found[:, 0, 0, 0] > found[:, 0, -1, 0]
        assert falling.any() == mirrored


def test_fewer_images_than_a_batch_make_one_batch(tmp_path):
    made = run(tiny(batch=1000, epochs=4), tmp_path)
    losses = [record["loss"] for record in made.records("epoch")]
    assert losses[-1] < losses[0]


# ------------------------------------------------------------------------------- validation
def test_validation_counts_the_nearest_prototypes():
    method, task = create_method(MethodSettings(name="protonet"), (16, 16)), make_task()
    support, labels, query, query_labels = method.task_tensors(task)
    with torch.no_grad():
        h, g = (
            embed(method.body.features, dict(method.theta), method.norm, x)
            for x in (support, query)
        )
    for found, cosine in zip(prototype_accuracies(method, task), (False, True), strict=True):
        if cosine:
            h, g = (F.normalize(x - x.mean(0), dim=1) for x in (h, g))
        means = torch.stack([h[labels == c].mean(0) for c in range(task.way)])
        if cosine:
            scores = torch.stack([F.cosine_similarity(g, m[None]) for m in means], 1)
        else:
            scores = -torch.stack([(g - m).norm(dim=1) for m in means], 1)
        assert found == pytest.approx((scores.argmax(1) == query_labels).float().mean().item())


# ------------------------------------------------------------------------------- failures
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # NumPy, of infinite weights
def test_a_non_finite_loss_ends_pretraining_with_an_error(tmp_path):
    with pytest.raises(SettingsError, match=r"finite in epoch \d; .*100000000\.0"):
        run(tiny(rate=1e8), tmp_path)


def test_the_callback_gets_every_record_of_the_log(tmp_path):
    logged = []
    made = run(tiny(epochs=2, check_every=1), tmp_path, callback=logged.append)
    assert logged == list(made.records())
    assert [record["kind"] for record in logged] == ["epoch", "check", "epoch", "check"]


def test_the_default_dtype_changes_no_number(tmp_path):
    try:
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            run(tiny(epochs=1, check_every=1), tmp_path / str(dtype))
    finally:
        torch.set_default_dtype(torch.float32)
    assert_equal(tensors(tmp_path / "torch.float64"), tensors(tmp_path / "torch.float32"))
