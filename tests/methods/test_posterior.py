import torch
from torch.distributions import Normal

from anyshot.core.random import torch_rng
from anyshot.methods.posterior import Posterior


def posterior() -> Posterior:
    def draw(n, k):
        return torch.randn(n, generator=torch_rng(k), dtype=torch.float64)

    mean = {"omega": draw(3, 0), "gamma": draw(5, 1), "z": draw(32, 2)}
    return Posterior(mean, {k: 0.3 + v.abs() for k, v in mean.items()})


def test_kl_equals_torchs_and_a_monte_carlo_estimate():
    q, prior = posterior(), Normal(0.0, 1.0)
    of_variable = {k: Normal(q.mean[k], q.deviation[k]) for k in q.mean}
    exact = sum(torch.distributions.kl_divergence(p, prior).sum() for p in of_variable.values())
    torch.testing.assert_close(q.kl(), exact)
    count = 20_000
    many = Posterior(
        *({k: v.expand(count, -1) for k, v in part.items()} for part in (q.mean, q.deviation))
    )
    estimate = sum(
        (of_variable[k].log_prob(v) - prior.log_prob(v)).sum(1)
        for k, v in many.sample(torch_rng(5)).items()
    )
    error = estimate.std() / count**0.5
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
    q = posterior()
    state = torch.get_rng_state()
    noise = torch_rng(3)
    sample = q.sample(torch_rng(3))
    # in this order, in float32, whatever the posterior's precision
    for name, value in sample.items():
        drawn = torch.randn(value.shape, generator=noise, dtype=torch.float32).double()
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, q.mean[name] + q.deviation[name] * drawn, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_deterministic_penalty_is_half_the_squared_means():
    q = posterior()
    torch.testing.assert_close(q.mean_penalty(), 0.5 * sum((m**2).sum() for m in q.mean.values()))
