"""What a run's settings change in the paper's protocol, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyshot.core.settings import Settings
from anyshot.core.settings_diff import differences
from anyshot.experiments.experiment import is_variant

#: Settings that are no part of the protocol, or that the caption explains in words.
IGNORED = {"seed", "body_from", "checkpoint_every"}


def protocol_differences(settings: Iterable[tuple[str, Settings, Settings]]) -> list[str]:
    """Compare (model, settings used, the paper's settings), setting by setting.

    A sentence is "iterations 200, not 50,000"; it names models only if it is not true of all.
    """
    models_of: dict[str, dict[tuple[str, str], list[str]]] = {}
    everyone: list[str] = []
    for model, used, paper in settings:
        everyone += [model] if model not in everyone else []
        for key, (paper_value, used_value) in differences(paper.as_dict(), used.as_dict()).items():
            if key not in IGNORED:
                values = (_describe(used_value), _describe(paper_value))
                models = models_of.setdefault(key, {}).setdefault(values, [])
                if model not in models:
                    models.append(model)
    sentences = []
    for key, values_of in models_of.items():
        parts = []
        for (used_text, paper_text), models in values_of.items():
            who = _describe_models(models, everyone)
            parts.append(f"{key} {used_text}, not {paper_text}{who}")
        sentences.append("; ".join(parts))
    return sentences


def _describe_models(models: Sequence[str], everyone: Sequence[str]) -> str:
    """The models that a sentence is true of, by their names or by those of the others."""
    others = [model for model in everyone if model not in models]
    if not others:
        return ""
    if 3 * len(others) < len(models):
        return f" (all but {', '.join(_fold_variants(others, everyone))})"
    return f" ({', '.join(_fold_variants(models, everyone))})"


def _fold_variants(models: Sequence[str], everyone: Sequence[str]) -> list[str]:
    """The names with "MAML with its variants" for MAML; MAML, ROS; and all others so named."""
    names = []
    for model in models:
        base = model.partition(", ")[0]
        family = {name for name in everyone if is_variant(name, base)}
        if base in family and len(family) > 1 and family <= set(models):
            names.append(f"{base} with its variants")
        else:
            names.append(model)
    return list(dict.fromkeys(names))


def _describe(value: object) -> str:
    if value is None:
        return "the method's default"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
