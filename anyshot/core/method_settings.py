"""The method of a run: the settings that methods share, and the options of one method alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyshot.core.builtin_options import methods_with, options_class
from anyshot.core.errors import SettingsError
from anyshot.core.old_settings import upgrade_part
from anyshot.core.options import (
    check_fields,
    non_default,
    option,
    parse_method_options,
    refuse_unknown_arguments,
    suggestion,
)
from anyshot.core.registry import BODIES, ENCODERS, METHODS, POOLINGS, STATISTICS
from anyshot.core.remedy import parse_remedy
from anyshot.core.text import join_words


@refuse_unknown_arguments
@dataclass(frozen=True)
class MethodSettings:
    """The method, its backbone and its inner loop.

    Parameters
    ----------
    name : str
        A built-in method, or your own as ``FILE.py:NAME``.
    options : dict
        The options of this method alone (its ``Options``), for example ``{"samples": 5}``.
        Options at their defaults are dropped.
    body, channels, adapt_body, steps, test_steps, order, alpha, alpha_head, start, centre, \
transductive, flips, zooms, shift, average_views, remedy
        The settings that methods share; ``anyshot train --help`` explains each.

    Examples
    --------
    >>> MethodSettings(name="taml", options={"samples": 5, "bayesian": True}).options
    {'samples': 5}
    >>> MethodSettings(name="maml", options={"zeta": 4.0})
    Traceback (most recent call last):
    anyshot.core.errors.SettingsError: maml has no option 'zeta'; mt-net has it.
    """

    name: str = option("taml", "The method.", choices=METHODS)
    options: dict[str, Any] = field(
        default_factory=dict, hash=False, metadata={"help": "The options of this method alone."}
    )
    body: str = option("conv4", "The backbone.", choices=BODIES)
    channels: int | None = option(
        None,
        "Channels of the backbone's first layer. Default: 32 for conv4, 64 for resnet12.",
        least=1,
        most=16_384,
    )
    adapt_body: bool = option(
        True,
        "Inner steps change the backbone and the head; off: the head alone, on features that are "
        "computed once.",
    )
    steps: int = option(5, "Inner steps in meta-training (K).", least=0, most=100_000)
    test_steps: int = option(10, "Inner steps in validation and test.", least=0, most=100_000)
    order: int = option(
        2, "Meta-gradients: 2 second-order (exact), 1 first-order.", choices=("1", "2")
    )
    alpha: float | None = option(
        None,
        "Inner learning rate α. Default: the method's (0.5 for MAML; 0.01, learned, for Meta-SGD "
        "and TAML).",
        least=0,
    )
    alpha_head: float | None = option(
        None, "Inner learning rate of the head. Default: --alpha.", least=0
    )
    start: str = option(
        "paper",
        "Initialisation of the convolutions: σ = 0.02 (paper) or √(2 / fan-in) (he).",
        choices=("paper", "he"),
    )
    centre: bool = option(False, "Feature centring: subtract the set's mean feature.")
    transductive: bool = option(
        True,
        "Batch-norm statistics of the query batch (transductive, as in the paper); off: of the "
        "support set.",
    )
    flips: bool = option(
        False,
        "Test-time augmentation: inner steps and predictions also use mirror images, where the "
        "image set allows it.",
    )
    zooms: tuple[float, ...] = option(
        (),
        "Test-time augmentation: inner steps and predictions also use these zooms (0.75: the "
        "middle three quarters of each side).",
        above=0,
        most=4,
    )
    shift: int = option(
        0,
        "Test-time augmentation: inner steps and predictions also use images that are shifted by "
        "so many pixels in four directions.",
        least=0,
        most=1000,
    )
    average_views: str = option(
        "probabilities",
        "What test-time augmentation averages over the views of an image: probabilities, or "
        "features, of which the method then sees one for each image.",
        choices=("probabilities", "features"),
    )
    remedy: str = option(
        "none",
        "Remedy against uneven classes: none, oversampling, oversampling+ (augmented), "
        "class-weights[:τ], effective-number[:β], focal[:γ] or logit-adjustment[:τ].",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        parse_remedy(self.remedy)
        if METHODS.is_builtin(self.name):
            known = options_class(self.name)
            check_option_names(self.name, self.options, known)
            options = non_default(parse_method_options(known, self.options))
            object.__setattr__(self, "options", options)
        else:  # options of your own variant of TAML
            options = dict(self.options)
            if "statistics" in options:
                names = tuple(map(STATISTICS.canonical_name, options["statistics"]))
                options["statistics"] = names
            for name, registry in (("encoder", ENCODERS), ("pooling", POOLINGS)):
                if isinstance(options.get(name), str):
                    options[name] = registry.canonical_name(options[name])
            object.__setattr__(self, "options", options)

    def all_options(self) -> dict[str, Any]:
        """The options of the method with their defaults.

        >>> MethodSettings(name="mt-net").all_options()
        {'zeta': 0.0}
        """
        return dataclasses.asdict(parse_method_options(options_class(self.name), self.options))

    def with_values(self, values: Mapping[str, Any], skip_unused: bool = False) -> MethodSettings:
        """A copy with other values of shared settings and of the method's options alike.

        Parameters
        ----------
        values : mapping
            New values by name. With another method ``name``, options that this method does not
            have are dropped.
        skip_unused : bool
            Drop values of options that the method does not have; otherwise they are an error.

        Examples
        --------
        >>> MethodSettings().with_values({"alpha": 0.1, "samples": 3}).options
        {'samples': 3}
        """
        shared_names = {f.name for f in dataclasses.fields(self)}
        shared = {k: v for k, v in values.items() if k in shared_names}
        options_given = {k: v for k, v in values.items() if k not in shared_names}
        if not options_given and shared.get("name", self.name) == self.name:
            return dataclasses.replace(self, **shared)
        known = {f.name for f in dataclasses.fields(options_class(shared.get("name", self.name)))}
        options = {k: v for k, v in self.options.items() if k in known}
        options |= shared.pop("options", {})
        options |= {k: v for k, v in options_given.items() if k in known or not skip_unused}
        return dataclasses.replace(self, **shared, options=options)

    @staticmethod
    def explain_unknown(name: str) -> str | None:
        """A sentence for an argument that is an option of single methods."""
        methods = methods_with(name)
        if not methods:
            return None
        return (
            f"{name!r} is an option of {join_words(methods)}, not a setting of all methods; "
            f"write MethodSettings(name={methods[-1]!r}, options={{{name!r}: …}})."
        )

    @staticmethod
    def upgrade(values: dict[str, Any]) -> dict[str, Any]:
        """Plain values that an earlier version wrote, as this version reads them."""
        return upgrade_part("method", values)


def check_option_names(method: str, options: Mapping[str, Any], known_options: type) -> None:
    """Refuse options that a method does not have, and say which method has them."""
    known = [f.name for f in dataclasses.fields(known_options)]
    for name in options:
        if name in known:
            continue
        others = methods_with(name)
        if others:
            hint = f"; {join_words(others)} {'have' if len(others) > 1 else 'has'} it."
        else:
            hint = suggestion(name, known) if known else "; it has no options."
        raise SettingsError(f"{method} has no option {name!r}{hint}")
