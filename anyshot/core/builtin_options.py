"""The options of the built-in methods, one dataclass each.

A method class names its dataclass as ``Options``; its values are in ``MethodSettings.options``. The
dataclasses are here rather than with the methods, so that the command line and the settings can
check them without loading torch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from anyshot.core.errors import SettingsError
from anyshot.core.options import check_fields, option, suggestion
from anyshot.core.registry import ENCODERS, METHODS, POOLINGS, STATISTICS

BALANCING = ("omega", "gamma", "z")  #: the balancing variables of TAML


@dataclass(frozen=True)
class MethodOptions:
    """The options of a method that has none."""


PREDICTIONS = ("mc", "naive")  #: by the mean over samples of the posterior, or at its mean


@dataclass(frozen=True)
class StatisticsOptions(MethodOptions):
    """Which batch-norm statistics tests use; the only options of ProtoNet, RFS and Proto-MAML."""

    stored_statistics: bool = option(
        False,
        "Inductive tests (--no-transductive) use batch-norm statistics of training images, stored "
        "at each validation; off: of the support set.",
    )
    norm_prior: float = option(
        0.0,
        "Other tests shrink the batch-norm statistics of each set towards those of training "
        "images, as if so many of these were in it; small sets have noisy statistics.",
        least=0,
    )


@dataclass(frozen=True)
class MAMLOptions(StatisticsOptions):
    """The options of MAML and ANIL."""

    learned_head: bool = option(
        False,
        "Learned initial head of each class, for a fixed number of classes (Finn); off: zeros.",
    )


@dataclass(frozen=True)
class SamplingOptions(MethodOptions):
    """How methods with a posterior predict."""

    prediction: str = option(
        "mc",
        "Prediction: average over posterior samples (mc), or at the posterior mean (naive).",
        choices=PREDICTIONS,
    )
    samples: int = option(10, "Monte Carlo samples of a prediction (S).", least=1, most=10_000)


@dataclass(frozen=True)
class ABMLOptions(SamplingOptions):
    """The options of ABML."""

    deviation: float = option(0.01, "Initial standard deviation of every weight.", above=0)
    deviation_head: float | None = option(
        None, "Initial standard deviation of the head's weights. Default: --deviation.", above=0
    )


@dataclass(frozen=True)
class R2D2Options(StatisticsOptions):
    """The options of R2D2."""

    ridge: float = option(1.0, "Initial regularisation λ of the ridge regression.", above=0)


@dataclass(frozen=True)
class MTNetOptions(MethodOptions):
    """The options of MT-net."""

    zeta: float = option(
        0.0, "Initial mask logit ζ; at 0 half of the channels and head outputs are adapted."
    )


@dataclass(frozen=True)
class MetaSGDOptions(StatisticsOptions):
    """The options of Meta-SGD, which TAML has, too."""

    head: str = option(
        "zero",
        "Initial head: zeros, class prototypes, or prototypes shrunk towards their mean.",
        choices=("zero", "prototypes", "shrunk-prototypes"),
    )
    head_kappa: float = option(1.0, "Initial shrinkage strength κ, in images (learned).", above=0)
    class_mean: bool = option(
        False, "Class-balanced support loss: average within each class first."
    )
    divide_by_shots: bool = option(
        False,
        "Divide each class's gradient by its number of images, without rescaling (the paper's "
        "'1/N').",
    )
    omega_prior: float | None = option(
        None,
        "Initial exponent τ of the class-size prior ω ∝ N_c^−τ (learned); none: uniform prior.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.class_mean and self.divide_by_shots:
            raise SettingsError(
                "class_mean and divide_by_shots are both on; use one of them: class_mean averages "
                "within each class, divide_by_shots divides without rescaling."
            )


@dataclass(frozen=True)
class TAMLOptions(MetaSGDOptions, SamplingOptions):
    """The options of TAML."""

    balance: tuple[str, ...] = option(
        BALANCING, "Balancing variables that are used.", choices=BALANCING
    )
    bayesian: bool = option(
        True,
        "Bayesian balancing variables; off: deterministic ones with an L2 penalty.",
    )
    z_site: str = option(
        "weight", "What z modulates: weights or activations.", choices=("weight", "activation")
    )
    hierarchical: bool = option(
        True, "Encode the classes, then the set of classes; off: pool all images at once."
    )
    statistics: tuple[str, ...] = option(
        ("mean", "var", "N"), "Set statistics that the task encoder pools.", choices=STATISTICS
    )
    encoder: str = option(
        "convolutional",
        "The task encoder, from images to balancing variables: convolutional (paper), or "
        "normalized, which cannot become blind to the images.",
        choices=ENCODERS,
    )
    pooling: str = option(
        "statistics",
        "How the encoder pools a set of features: by set statistics or by attention.",
        choices=POOLINGS,
    )
    cardinality: str = option(
        "linear",
        "Set-size encoding of the task encoder: (N − 1) / 49, or log N / log 50.",
        choices=("linear", "log"),
    )
    omega_hidden: int = option(
        64,
        "Hidden units between the class statistics and ω; 0: none (multi).",
        least=0,
        most=65_536,
    )
    gains: tuple[float, ...] = option(
        (),
        "Initial gains of ω̃, γ̃ and z̃ (learned); none: 1, not learned (paper). Small gains "
        "protect a pre-trained body.",
        above=0,
    )

    evidence: bool = option(
        False,
        "The task encoder also sees how well each part of the features predicts support images "
        "that are left out.",
    )
    encoder_rate: float = option(
        1.0, "Learning rate of the task encoder and the gains, as a multiple of --rate.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.statistics:
            known = ", ".join(STATISTICS)
            raise SettingsError(f"statistics is empty; the encoder needs at least one of {known}.")
        if self.gains and len(self.gains) != len(BALANCING):
            raise SettingsError(f"gains is {self.gains}, but must be three numbers: ω̃, γ̃ and z̃.")


#: The built-in methods that have options.
BUILTIN_OPTIONS: dict[str, type[MethodOptions]] = {
    "maml": MAMLOptions,
    "anil": MAMLOptions,
    "meta-sgd": MetaSGDOptions,
    "mt-net": MTNetOptions,
    "abml": ABMLOptions,
    "taml": TAMLOptions,
    **dict.fromkeys(("protonet", "simpleshot", "rfs", "proto-maml"), StatisticsOptions),
    "r2d2": R2D2Options,
}


def options_class(method: str) -> type:
    """The ``Options`` of a method; those of your own method are loaded with its code."""
    if METHODS.is_builtin(method):
        return BUILTIN_OPTIONS.get(method, MethodOptions)
    if method not in METHODS:
        raise SettingsError(f"name cannot be {method!r}{suggestion(method, METHODS)}")
    return getattr(METHODS[method], "Options", MethodOptions)


def methods_with(option_name: str) -> list[str]:
    """The built-in methods that have an option.

    >>> methods_with("samples")
    ['abml', 'taml']
    """
    return [
        method
        for method, options in BUILTIN_OPTIONS.items()
        if option_name in {field.name for field in fields(options)}
    ]
