"""Remedies against uneven classes by name: what ``MethodSettings.remedy`` accepts."""

from __future__ import annotations

from typing import NamedTuple

from anyshot.core.errors import SettingsError
from anyshot.core.options import suggestion


class Strength(NamedTuple):
    """The number of a remedy: its default and its range, both ends included."""

    default: float
    least: float
    most: float


#: Remedies that change the support set, for every method.
OVERSAMPLING = ("oversampling", "oversampling+")
#: Remedies that weigh the images of a class.
WEIGHTING = ("class-weights", "effective-number")
#: Remedies that change the loss itself.
LOSSES = ("focal", "logit-adjustment")
REMEDIES: dict[str, Strength | None] = {
    "none": None,
    **dict.fromkeys(OVERSAMPLING),
    "class-weights": Strength(1.0, 0.0, 10.0),
    # the smallest β of Cui et al.: from 0.99 on, classes of up to 50 images are weighed by 1/N
    "effective-number": Strength(0.9, 0.0, 0.999999),
    "focal": Strength(2.0, 1.0, 10.0),
    "logit-adjustment": Strength(1.0, 0.0, 10.0),
}


def parse_remedy(text: str) -> tuple[str, float]:
    """Name and strength of a remedy such as ``focal`` or ``class-weights:0.5``.

    >>> parse_remedy("focal"), parse_remedy("class-weights:0.5")
    (('focal', 2.0), ('class-weights', 0.5))
    """
    name, colon, number = text.partition(":")
    if name not in REMEDIES:
        raise SettingsError(f"There is no remedy {name!r}{suggestion(name, REMEDIES)}")
    strength = REMEDIES[name]
    if not colon:
        return name, 0.0 if strength is None else strength.default
    if strength is None:
        raise SettingsError(f"The remedy {name!r} has no strength; write {name!r}, not {text!r}.")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not strength.least <= value <= strength.most:
        raise SettingsError(
            f"The strength of {name!r} must be a number from {strength.least:g} to "
            f"{strength.most:g}, not {number!r}."
        )
    return name, value
