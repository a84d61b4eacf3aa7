"""The baselines against independent computations of the same formulas."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import make_method, make_task
from tiny_runs import tiny, train_tiny

from anyshot.methods import MAML
from anyshot.models.network import HEAD_PARAMETERS


def features_of(method, task):
    support, labels, query, query_labels = method.task_tensors(task)
    with torch.no_grad():
        return (
            method.embed(support).numpy(),
            labels.numpy(),
            method.embed(query).numpy(),
            query_labels.numpy(),
        )


def test_rfs_is_logistic_regression_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    method, task = make_method("rfs"), make_task()
    x, y, queries, _ = features_of(method, task)
    x, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, queries))
    model = linear_model.LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x, y)
    expected = model.predict_proba(queries)
    np.testing.assert_allclose(method.predict(task).numpy(), expected, atol=2e-4)


def test_r2d2_is_the_primal_form_of_ridge_regression():
    method, task = make_method("r2d2"), make_task()
    x, y, queries, _ = features_of(method, task)
    x, queries = (np.concatenate([a, np.ones((len(a), 1))], 1) for a in (x, queries))
    penalty = np.exp(method.log_lambda.item())
    weight = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ np.eye(task.way)[y])
    logits = method.scale.item() * queries @ weight + method.offset.item()
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(method.predict(task).numpy(), expected, rtol=1e-7)


def test_r2d2_meta_gradient_equals_finite_differences():
    method, task = make_method("r2d2"), make_task()
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(
        method.objective(task).loss, parameters, materialize_grads=True, allow_unused=True
    )
    assert any(g.abs().max() > 0 for g in gradients)
    h, losses = 1e-7, []
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter += sign * h * gradient
            losses.append(method.objective(task).loss.item())
    expected = sum((g**2).sum().item() for g in gradients)
    assert (losses[0] - losses[1]) / (2 * h) == pytest.approx(expected, rel=1e-4)


def test_simpleshot_is_the_nearest_mean_of_centred_unit_features():
    method, task = make_method("simpleshot"), make_task()
    x, y, queries, _ = features_of(method, task)
    centre = method.centre.detach().numpy()
    x, queries = x - centre, queries - centre
    x, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, queries))
    means = np.stack([x[y == c].mean(0) for c in range(task.way)])
    distances = np.linalg.norm(queries[:, None] - means, axis=2)
    assert (method.predict(task).argmax(1).numpy() == distances.argmin(1)).all()


def test_simpleshot_learns_the_mean_feature_and_nothing_else():
    method, task = make_method("simpleshot"), make_task()
    x, _, _, _ = features_of(method, task)
    with torch.no_grad():
        method.centre.copy_(torch.from_numpy(x.mean(0)))
    gradients = torch.autograd.grad(
        method.objective(task).loss, list(method.parameters()), allow_unused=True
    )
    moved = [g for g in gradients if g is not None]
    assert len(moved) == 1
    assert moved[0].abs().max() < 1e-12


class SharedVectorMAML(MAML):
    """UNICORN-MAML as published: one learned vector is the initial head of every class."""

    def __init__(self, settings, body, generator):
        super().__init__(settings, body, generator)
        self.vector = torch.nn.Parameter(torch.randn(body.width, generator=generator))

    def head(self, theta, norm, images, labels, way):
        return {
            "head_weight": self.vector.expand(way, -1),
            "head_bias": self.vector.new_zeros(way),
        }


def test_one_initial_vector_for_all_classes_changes_nothing():
    maml, task = make_method("maml", alpha=0.1), make_task()
    shared = SharedVectorMAML(maml.settings, maml.body, torch.Generator().manual_seed(1)).double()
    shared.load_state_dict(maml.state_dict(), strict=False)
    torch.testing.assert_close(shared.predict(task), maml.predict(task))
    gradient = torch.autograd.grad(shared.objective(task).loss, shared.vector)[0]
    assert gradient.abs().max() < 1e-12


def test_anil_moves_the_head_alone():
    method, task = make_method("anil", alpha=0.1), make_task()
    x, y, _, _ = method.task_tensors(task)
    inner = method.inner_problem(x, y, task.way, {}, 3)
    for name, value in method.adapted_parameters(inner, 2).items():
        assert torch.equal(value, inner.theta[name]) == (name not in HEAD_PARAMETERS)


def test_embedding_methods_fit_all_views_of_the_support_images():
    method, task = make_method("r2d2", zooms=(0.75,)), make_task()
    support, labels, query, _ = method.task_tensors(task)
    with torch.no_grad():
        views = list(zip(method.views(support), method.views(query), strict=True))
        features = torch.cat([method.embed(view) for view, _ in views])
        score = method.fit(features, labels.repeat(2), task.way)
        expected = torch.stack([score(method.embed(q)).softmax(1) for _, q in views]).mean(0)
    torch.testing.assert_close(method.predict(task), expected)
    assert not torch.allclose(expected, make_method("r2d2").predict(task))


def test_rfs_objective_is_the_query_loss_of_the_fitted_head():
    method, task = make_method("rfs"), make_task()
    expected = F.nll_loss(method.predict(task).log(), task.query_labels)
    assert method.objective(task).loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_ridge_of_r2d2_starts_at_its_option():
    assert make_method("r2d2", ridge=50.0).log_lambda.exp().item() == pytest.approx(50, rel=0.3)


def test_training_rfs_changes_no_parameter(tmp_path):
    run = train_tiny(tiny("rfs", rate=0.1), tmp_path)
    before, after = run.new_method().state_dict(), run.load_method().state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
