import pytest
import torch
from torch.distributions import Normal

from anyshot.core.random import torch_rng
from anyshot.methods.balancing import Posterior, apply_gamma, apply_z, image_weights
from anyshot.models.bodies.conv4 import CONV_BIASES, CONV_WEIGHTS, conv4
from anyshot.models.network import HEAD_PARAMETERS, Norm


def posterior() -> Posterior:
    def draw(n, k):
        return torch.randn(n, generator=torch_rng(k), dtype=torch.float64)

    mean = {"omega": draw(3, 0), "gamma": draw(5, 1), "z": draw(32, 2)}
    return Posterior(mean, {k: 0.3 + v.abs() for k, v in mean.items()})


def test_kl_equals_torchs_and_a_monte_carlo_estimate():
    q = posterior()
    exact = sum(
        torch.distributions.kl_divergence(Normal(q.mean[k], q.deviation[k]), Normal(0.0, 1.0)).sum()
        for k in q.mean
    )
    torch.testing.assert_close(q.kl(), exact)
    noise, draws = torch_rng(5), []
    for _ in range(20_000):
        phi = q.sample(noise)
        draws.append(
            sum(
                (Normal(q.mean[k], q.deviation[k]).log_prob(v) - Normal(0.0, 1.0).log_prob(v)).sum()
                for k, v in phi.items()
            )
        )
    estimate = torch.stack(draws)
    error = estimate.std() / len(draws) ** 0.5
    assert abs(estimate.mean() - q.kl()) < 4 * error


def test_samples_have_the_posteriors_moments_and_are_reparametrised():
    q = Posterior(
        {"gamma": torch.tensor([1.0, -2.0], requires_grad=True)},
        {"gamma": torch.tensor([0.5, 2.0], requires_grad=True)},
    )
    noise = torch_rng(0)
    draws = torch.stack([q.sample(noise)["gamma"] for _ in range(10_000)])
    torch.testing.assert_close(draws.mean(0), torch.tensor([1.0, -2.0]), atol=0.08, rtol=0)
    torch.testing.assert_close(draws.std(0), torch.tensor([0.5, 2.0]), atol=0.08, rtol=0)
    (gradient,) = torch.autograd.grad(draws.sum(), q.mean["gamma"])
    assert gradient.tolist() == [10_000, 10_000]


def test_a_sample_is_made_of_the_given_noise_alone():
    q, state, noise = posterior(), torch.get_rng_state(), torch_rng(3)
    found = q.sample(torch_rng(3))
    for (
        name,
        value,
    ) in found.items():  # in this order, in float32, whatever the posterior's precision
        drawn = torch.randn(value.shape, generator=noise, dtype=torch.float32).double()
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, q.mean[name] + q.deviation[name] * drawn, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_deterministic_penalty_is_half_the_squared_means():
    q = posterior()
    torch.testing.assert_close(q.mean_penalty(), 0.5 * sum((m**2).sum() for m in q.mean.values()))


def test_weights_without_omega_are_the_mean_cross_entropy():
    labels, like = torch.tensor([0, 0, 0, 1]), torch.zeros(())
    assert image_weights(labels, 2, {}, like).tolist() == [0.25] * 4
    assert image_weights(labels, 2, {}, like, class_mean=True).tolist() == pytest.approx(
        [1 / 6] * 3 + [1 / 2]
    )


def test_omega_weighs_classes():
    labels = torch.tensor([0, 0, 0, 1])
    omega = torch.tensor([0.3, 1.7])
    w = image_weights(labels, 2, {"omega": omega}, torch.zeros(()))
    share = omega.softmax(0)
    assert w.tolist() == pytest.approx([share[0].item() * 2 / 4] * 3 + [share[1].item() * 2 / 4])


def test_gamma_scales_the_steps_of_its_layer():
    names = [*CONV_WEIGHTS, *CONV_BIASES, *HEAD_PARAMETERS]
    gamma = torch.log(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    rates = apply_gamma({n: torch.tensor(0.1) for n in names}, {"gamma": gamma}, conv4((16, 16)))
    for layer, pair in enumerate([*zip(CONV_WEIGHTS, CONV_BIASES, strict=True), HEAD_PARAMETERS]):
        for name in pair:
            assert rates[name].item() == pytest.approx(0.1 * (layer + 1))
    assert apply_gamma(rates, {}, conv4((16, 16))) is rates


def test_z_shifts_weights_and_biases_or_activations():
    theta = {n: torch.ones(2, 3, 3, 3) for n in CONV_WEIGHTS} | {
        n: torch.ones(2) for n in CONV_BIASES
    }
    norm, body = Norm([torch.zeros(2)] * 4), conv4((16, 16), 2)
    z = torch.arange(16.0) / 10
    moved, same = apply_z(theta, norm, {"z": z}, body)
    assert same is norm
    assert moved["conv1_weight"][:, 0, 0, 0].tolist() == pytest.approx([1.0, 1.1])
    assert moved["conv1_bias"].tolist() == pytest.approx([1.2, 1.3])
    assert moved["conv4_bias"].tolist() == pytest.approx([1 + 1.4, 1 + 1.5])
    kept, film = apply_z(theta, norm, {"z": z}, body, "activation")
    assert kept is theta
    assert film.scale[1].tolist() == pytest.approx([1.4, 1.5])
    assert film.shift[1].tolist() == pytest.approx([0.6, 0.7])
    assert apply_z(theta, norm, {}, body) == (theta, norm)
