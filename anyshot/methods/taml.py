"""Bayesian TAML: Meta-SGD with losses, learning rates and initialisation balanced for each task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyshot.core.builtin_options import BALANCING, TAMLOptions
from anyshot.core.code_loading import check_call
from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.registry import ENCODERS
from anyshot.core.settings import MethodSettings
from anyshot.methods.balancing import Phi, apply_z
from anyshot.methods.evidence import held_out_evidence
from anyshot.methods.meta_sgd import MetaSGD
from anyshot.methods.posterior import Posterior
from anyshot.models.network import Body, Norm, Parameters


class TAML(MetaSGD):
    """Bayesian task-adaptive meta-learning (Lee et al., "Learning to Balance", ICLR 2020).

    https://arxiv.org/abs/1905.12917

        (ω, γ, z) ~ q(φ | D; ψ)
        θ_0 = θ ∗ z,    θ_k = θ_{k−1} − γ ∘ α ∘ Σ_c ω_c ∇L_c(θ_{k−1})
        objective = query CE(θ_K) + KL[q(φ | D) ‖ N(0, 1)] / (N + M)

    An encoder reads the support set and infers three balancing variables: class weights ω against
    class imbalance, learning-rate multipliers γ against task imbalance, and a change z of the
    initial parameters for tasks unlike those of training. Training samples φ once per task.
    Prediction averages the softmax over several samples, each with its own adaptation.

    With ``bayesian=False`` φ is its mean and the KL becomes ½ Σ μ² (deterministic TAML).
    """

    Options = TAMLOptions
    options: TAMLOptions

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__(settings, body, generator)
        options = self.options
        if options.z_site == "activation" and len(body.norm().shift) < len(body.layers):
            raise SettingsError(
                f"z cannot modulate the activations of {settings.body!r}, which is a module; use "
                "--z-site weight."
            )
        self.encoder: nn.Module | None = None
        if options.balance:
            encoder = ENCODERS[options.encoder]
            arguments = "options, body, generator, start, adapt_body"
            check_call(f"The task encoder {options.encoder!r}", encoder, arguments)
            self.encoder = encoder(options, body, generator, settings.start, settings.adapt_body)
        gains = dict(zip(BALANCING, options.gains, strict=False))
        self.log_gain = nn.ParameterDict(
            {name: torch.tensor(gain).log() for name, gain in gains.items()}
        )

    def posterior(self, images: Tensor, labels: Tensor, way: int) -> Posterior | None:
        if self.encoder is None:
            return None
        evidence = None
        if self.options.evidence:
            with torch.no_grad():
                features = self.embed(images)
            evidence = held_out_evidence(
                features - features.mean(0), labels, way, list(self.body.head_parts.values())
            )
        q = self.encoder(images, labels, way, evidence)
        if not isinstance(q, Posterior):
            raise CodeError(
                f"The task encoder {self.options.encoder!r} returned {type(q).__name__}; expected "
                "an anyshot.Posterior."
            )
        return q

    def learning_rate_multipliers(self) -> dict[str, float]:
        """Those of Meta-SGD; ``encoder_rate`` for the encoder and the gains."""
        names = [
            name
            for name, _ in self.named_parameters()
            if name.startswith(("encoder.", "log_gain."))
        ]
        return super().learning_rate_multipliers() | dict.fromkeys(names, self.options.encoder_rate)

    def training_phi(self, q: Posterior, noise: torch.Generator) -> Phi:
        """A sample of the posterior; deterministic TAML: its mean."""
        return q.sample(noise) if self.options.bayesian else q.mean

    def penalty(self, q: Posterior) -> Tensor:
        """The KL; deterministic TAML: ½ Σ μ²."""
        return q.kl() if self.options.bayesian else q.mean_penalty()

    def test_phis(self, q: Posterior, noise: torch.Generator, prediction: str) -> list[Phi]:
        """S samples, or the posterior mean (naive, and deterministic TAML)."""
        if not self.options.bayesian or prediction == "naive":
            return [q.mean]
        return [q.sample(noise) for _ in range(self.options.samples)]

    def initial_parameters(self, phi: Phi) -> tuple[Parameters, Norm]:
        return apply_z(dict(self.theta), self.norm, phi, self.body, self.options.z_site)

    def apply_gains_and_priors(self, phi: Phi, shots: Tensor) -> Phi:
        """Multiply by the learned gains; the prior N(0, 1) is on the variables before that."""
        scaled = {
            k: v * self.log_gain[k].exp() if k in self.log_gain else v for k, v in phi.items()
        }
        return super().apply_gains_and_priors(scaled, shots)
