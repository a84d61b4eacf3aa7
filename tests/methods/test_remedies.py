"""Remedies against uneven classes, each against an independent computation."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method, make_task

from anyshot.core.errors import SettingsError
from anyshot.core.remedy import REMEDIES
from anyshot.core.settings import MethodSettings, TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.inner_loop.focal import focal_loss, focal_slope
from anyshot.methods.remedies import Remedy, augment_floats, draw_repetitions
from anyshot.models.network import logits

GRADIENT_METHODS = ("maml", "meta-sgd", "proto-maml", "anil", "taml", "mt-net", "abml")
CHANGING = [name for name in REMEDIES if name != "none"]


@pytest.fixture
def task():
    sizes = TaskSettings(way=3, shots="linear:1-6", query=4)
    return TaskStream(make_imageset(), "test", sizes).task(0)


def balanced(shots):
    """Class sizes as the argument of Remedy.class_factors."""
    return torch.tensor(shots, dtype=torch.float64)


def test_class_weights_are_the_balanced_ones_of_scikit_learn():
    class_weight = pytest.importorskip("sklearn.utils.class_weight")
    labels = np.repeat([0, 1, 2], [1, 4, 20])
    expected = class_weight.compute_class_weight("balanced", classes=np.arange(3), y=labels)
    actual = Remedy.parse("class-weights").class_factors(balanced([1, 4, 20]))
    np.testing.assert_allclose(actual.numpy(), expected)


def test_effective_numbers_are_geometric_sums():
    beta, shots = 0.9, [1, 5, 30]
    numbers = np.array([sum(beta**i for i in range(n)) for n in shots])
    factors = Remedy.parse(f"effective-number:{beta}").class_factors(balanced(shots)).numpy()
    np.testing.assert_allclose(factors / factors[0], numbers[0] / numbers)
    assert factors @ shots == pytest.approx(sum(shots))  # the mean weight of an image is 1


def test_weights_of_strength_zero_and_of_equal_classes_are_one():
    for text, shots in [
        ("class-weights:0", [1, 9]),
        ("effective-number:0", [1, 9]),
        ("class-weights:2", [5, 5]),
        ("effective-number:0.99", [5, 5]),
    ]:
        assert Remedy.parse(text).class_factors(balanced(shots)).tolist() == pytest.approx([1, 1])


def test_oversampling_keeps_all_images_and_makes_classes_equal():
    labels = torch.tensor([2, 0, 0, 0, 1, 1])
    images = torch.arange(6.0).view(6, 1, 1, 1)
    noise = torch.Generator().manual_seed(0)
    more, more_labels = Remedy.parse("oversampling").resample(images, labels, noise)
    assert torch.equal(more[:6], images)
    assert torch.bincount(more_labels).tolist() == [3, 3, 3]
    assert torch.equal(labels[more.flatten().long()], more_labels)  # images keep their labels


def test_oversampling_draws_the_images_of_a_class_alike():
    labels = torch.tensor([0, 0, 0] + [1] * 3003)
    drawn = Counter(draw_repetitions(labels, torch.Generator().manual_seed(0)).tolist())
    assert set(drawn) == {0, 1, 2}
    assert all(abs(count - 1000) < 4 * (1000 * 2 / 3) ** 0.5 for count in drawn.values())


def test_oversampling_with_augmentation_changes_only_the_repeated_images(task):
    method = make_method("protonet")
    images = method.to_input(task.support)
    noise = torch.Generator().manual_seed(0)
    labels = task.support_labels
    plain, _ = Remedy.parse("oversampling").resample(images, labels, noise.manual_seed(3))
    changed, _ = Remedy.parse("oversampling+").resample(images, labels, noise.manual_seed(3))
    n = len(images)
    assert torch.equal(changed[:n], images)
    difference = (changed[n:] - plain[n:]).abs().flatten(1)
    assert (difference.mean(1) > 0.01).all()
    assert (changed >= 0).all()
    assert (changed <= 1).all()


def test_augmentation_of_grey_images_is_refused():
    with pytest.raises(SettingsError, match="3 channels"):
        augment_floats(torch.zeros(2, 1, 8, 8), torch.Generator())


def test_focal_slope_is_the_derivative_of_the_focal_loss():
    losses = torch.tensor([0.0, 0.1, 1.3, 5.0], dtype=torch.float64, requires_grad=True)
    for gamma in (1.0, 2.0, 3.5):
        (expected,) = torch.autograd.grad(focal_loss(losses, gamma).sum(), losses)
        torch.testing.assert_close(focal_slope(losses.detach(), gamma), expected)


@pytest.mark.parametrize("gamma", [1.0, 1.5, 2.0, 3.5])
def test_meta_gradients_of_focal_loss_are_finite_for_an_image_without_loss(gamma):
    losses = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(focal_slope(losses, gamma), losses)
    assert slope.isfinite().all()


def support_loss(remedy, scores, y):
    """The support loss of MAML under a remedy, written out in plain torch."""
    shots = torch.bincount(y).to(scores)
    if remedy == "logit-adjustment":
        scores = scores + (shots / len(y)).log()
    p = scores.softmax(1)[torch.arange(len(y)), y]
    if remedy == "focal":
        return (-((1 - p) ** 2) * p.log()).mean()
    if remedy == "class-weights":
        return torch.stack([-p[y == c].log().mean() for c in range(len(shots))]).mean()
    if remedy == "effective-number":
        sizes = (1 / ((1 - 0.9**shots) / 0.1))[y]
        return -(sizes * p.log()).sum() / sizes.sum()
    return -p.log().mean()


@pytest.mark.parametrize("engine", ["engine", "autograd"])
@pytest.mark.parametrize("remedy", CHANGING)
def test_meta_gradient_of_maml_equals_plain_autograd(task, remedy, engine):
    """Second-order meta-gradients in float64 of an inner loop that is written out here."""
    method = make_method("maml", alpha=0.1, remedy=remedy)
    method.engine = engine
    parameters = list(method.theta.values())
    actual = torch.autograd.grad(method.objective(task).loss, parameters, allow_unused=True)

    x, y, query, query_labels = method.task_tensors(task)
    theta = dict(method.theta) | {
        "head_weight": x.new_zeros(3, method.body.width).requires_grad_(),
        "head_bias": x.new_zeros(3).requires_grad_(),
    }
    for _ in range(method.settings.steps):
        loss = support_loss(remedy, logits(method.body.features, theta, method.norm, x), y)
        gradients = torch.autograd.grad(
            loss, list(theta.values()), create_graph=True, materialize_grads=True
        )
        theta = {
            name: value - 0.1 * g for (name, value), g in zip(theta.items(), gradients, strict=True)
        }
    scores = logits(method.body.features, theta, method.norm, query)
    expected = torch.autograd.grad(
        F.cross_entropy(scores, query_labels), parameters, allow_unused=True
    )
    for a, e in zip(actual, expected, strict=True):
        if a is not None and e is not None:  # biases of convolutions cancel
            torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-12)
    assert sum(e is not None for e in expected) >= 4


@pytest.mark.parametrize("remedy", CHANGING[2:])
def test_steps_on_the_head_alone_use_the_remedy(task, remedy):
    """Linear regression steps on fixed features, written out here."""
    method = make_method("maml", alpha=0.1, remedy=remedy, adapt_body=False)
    with torch.no_grad():
        x, queries = (method.embed(method.to_input(i)) for i in (task.support, task.query))
    weight, bias = x.new_zeros(3, x.shape[1]), x.new_zeros(3)
    for _ in range(method.settings.test_steps):
        weight, bias = weight.requires_grad_(), bias.requires_grad_()
        loss = support_loss(remedy, x @ weight.t() + bias, task.support_labels)
        g_weight, g_bias = torch.autograd.grad(loss, [weight, bias])
        weight, bias = (weight - 0.1 * g_weight).detach(), (bias - 0.1 * g_bias).detach()
    expected = (queries @ weight.t() + bias).softmax(1)
    torch.testing.assert_close(method.predict(task), expected)


def test_logit_adjustment_of_a_head_that_is_not_linear_is_added_to_its_scores():
    offset = torch.tensor([0.5, -1.0])
    theta, features = {"head_weight": torch.ones(2, 3)}, torch.randn(4, 3)

    def cosine(at, f):
        return F.normalize(f) @ F.normalize(at["head_weight"]).t()

    method = make_method("maml", dtype=torch.float32)
    x, y = torch.rand(4, 3, 16, 16), torch.tensor([0, 0, 0, 1])
    inner = method.inner_problem(x, y, 2, {}, 1)
    inner = dataclasses.replace(inner, head=cosine, logit_offset=offset)
    same, head = inner.adjust_logits(theta)
    assert same is theta
    torch.testing.assert_close(head(theta, features), cosine(theta, features) + offset)


@pytest.mark.parametrize("remedy", CHANGING)
@pytest.mark.parametrize("name", [*GRADIENT_METHODS, "rfs"])
def test_every_remedy_changes_the_predictions_of_every_method_with_a_support_loss(
    task, name, remedy
):
    plain, changed = make_method(name, alpha=0.1), make_method(name, alpha=0.1, remedy=remedy)
    difference = plain.predict(task) - changed.predict(task)
    assert difference.abs().max() > 1e-6
    assert torch.isfinite(changed.predict(task)).all()


@pytest.mark.parametrize("remedy", CHANGING[2:])
def test_loss_remedies_do_nothing_to_a_task_of_equal_classes_but_for_focal_loss(remedy):
    equal = make_task(shots="fixed:3")
    for name in ("maml", "rfs", "taml"):
        plain = make_method(name, alpha=0.1).predict(equal)
        same = torch.allclose(plain, make_method(name, alpha=0.1, remedy=remedy).predict(equal))
        assert same == (remedy != "focal")


def test_rfs_with_class_weights_is_scikit_learn_with_balanced_classes(task):
    linear_model = pytest.importorskip("sklearn.linear_model")
    method = make_method("rfs", remedy="class-weights")
    with torch.no_grad():
        x, queries = (
            F.normalize(method.embed(method.to_input(images))).numpy()
            for images in (task.support, task.query)
        )
    model = linear_model.LogisticRegression(class_weight="balanced", tol=1e-10, max_iter=5000)
    expected = model.fit(x, task.support_labels.numpy()).predict_proba(queries)
    np.testing.assert_allclose(method.predict(task).numpy(), expected, atol=2e-4)


@pytest.mark.parametrize("remedy", ["focal", "logit-adjustment"])
def test_rfs_minimises_the_changed_loss(task, remedy):
    """torch's own L-BFGS on the loss written out here finds the same classifier."""
    method = make_method("rfs", remedy=remedy)
    with torch.no_grad():
        x, queries = (
            F.normalize(method.embed(method.to_input(images)))
            for images in (task.support, task.query)
        )
    y = task.support_labels
    prior = (torch.bincount(y) / len(y)).log() if remedy == "logit-adjustment" else 0
    weight = torch.zeros(3, x.shape[1], dtype=x.dtype, requires_grad=True)
    bias = torch.zeros(3, dtype=x.dtype, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        solver.zero_grad()
        p = (x @ weight.t() + bias + prior).softmax(1)[torch.arange(len(y)), y]
        factor = (1 - p) ** 2 if remedy == "focal" else 1
        loss = -(factor * p.log()).sum() + (weight**2).sum() / 2
        loss.backward()
        return loss

    solver.step(closure)
    expected = (queries @ weight.t() + bias).softmax(1).detach()
    torch.testing.assert_close(method.predict(task), expected, rtol=0, atol=1e-3)


def test_r2d2_with_class_weights_is_weighted_ridge_regression(task):
    linear_model = pytest.importorskip("sklearn.linear_model")
    method = make_method("r2d2", remedy="class-weights")
    with torch.no_grad():
        x, queries = (
            F.pad(method.embed(method.to_input(images)), (0, 1), value=1.0).numpy()
            for images in (task.support, task.query)
        )
    y = task.support_labels.numpy()
    ridge = linear_model.Ridge(alpha=np.exp(method.log_lambda.item()), fit_intercept=False)
    ridge.fit(x, np.eye(3)[y], sample_weight=len(y) / (3 * np.bincount(y)[y]))
    scores = method.scale.item() * ridge.predict(queries) + method.offset.item()
    expected = torch.from_numpy(scores).softmax(1)
    torch.testing.assert_close(method.predict(task), expected)


def test_methods_without_a_support_loss_accept_oversampling_only(task):
    make_method("protonet", remedy="oversampling").predict(task)
    for name, remedy in [("protonet", "focal"), ("simpleshot", "class-weights"), ("r2d2", "focal")]:
        with pytest.raises(SettingsError, match="oversampling"):
            make_method(name, remedy=remedy)


@pytest.mark.parametrize(
    "text", ["rebalance", "oversampling:2", "focal:0.5", "focal:x", "effective-number:1", ""]
)
def test_unknown_remedies_and_strengths_are_refused(text):
    with pytest.raises(SettingsError):
        MethodSettings(remedy=text)


def test_a_task_is_oversampled_in_the_same_way_each_time(task):
    method = make_method("maml", remedy="oversampling+")
    first, labels, _, _ = method.task_tensors(task)
    second, _, _, _ = method.task_tensors(task)
    assert torch.equal(first, second)
    assert len(set(torch.bincount(labels).tolist())) == 1
