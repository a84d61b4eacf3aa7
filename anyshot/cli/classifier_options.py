"""Options and messages that the commands of the classifier share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from anyshot.classifier import AnyShotClassifier
    from anyshot.classifier.folders import Classification, LabelledFiles

log = logging.getLogger(__name__)

Support = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Photos to learn from: DIR/CLASS/*.jpg; or a file that anyshot export wrote.",
    ),
]
Backbone = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="efficientnet-lite0, -lite1, -lite2, conv4:RUN, timm:NAME or torchvision:NAME.",
    ),
]
Quality = Annotated[
    Literal["fast", "best"],
    typer.Option(
        metavar="fast|best",
        help="best: a larger network on two views of each photo; more accurate, but slower.",
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Meta-trained weights: a name of anyshot weights list, a folder, or a run, which then "
        "is the backbone.",
    ),
]
Side = Annotated[
    int | None,
    typer.Option(
        min=16,
        max=2048,
        metavar="N",
        help="Photos are resized to N x N. Default: the backbone's size.",
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--class-prior",
        metavar="PRIOR",
        help="How common the classes are among the photos to classify: even, as-given (as in the "
        "support folder), cat=0.2,dog=0.8, or a CSV or JSON file of shares. Default: even, or "
        "that of the saved classifier.",
    ),
]
UnknownThreshold = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="X",
        help="Photos with a higher unknown score count as unknown. Default: calibrated, so that "
        "about one in twenty known photos does.",
    ),
]
DEFAULT = "efficientnet-lite0"
LEARNER = "photos-lite0"
SHOWN = 20  # skipped files that are named for each reason


def fit_support(
    support: Path,
    backbone: str,
    weights: str,
    side: int | None,
    device: str,
    trust_code: bool = False,
    class_prior: str | None = None,
    unknown_threshold: float | None = None,
    quality: str = "fast",
) -> tuple[AnyShotClassifier, LabelledFiles]:
    """A classifier fitted to the support folder, and the files it was fitted to.

    If `support` is a file of a saved classifier, it is read instead.
    """
    from anyshot.classifier import AnyShotClassifier
    from anyshot.classifier.class_prior import parse_class_prior
    from anyshot.classifier.folders import find_labelled_images, fit_folder

    if support.is_file():
        chosen = {"--backbone": backbone != DEFAULT, "--weights": weights != LEARNER}
        chosen |= {"--side": side is not None, "--quality": quality != "fast"}
        _refuse_options(support, chosen)
        return _load_saved(support, device, trust_code, class_prior, unknown_threshold)
    backbone, weights = resolve_backbone(backbone, weights)
    prior = parse_class_prior(class_prior or "even")
    files = find_labelled_images(support)
    print_skipped(support, files)
    classifier = AnyShotClassifier(
        backbone,
        weights=weights,
        quality=quality,
        side=side,
        device=device,
        trust_code=trust_code,
        class_prior=prior,
        unknown_threshold=unknown_threshold,
    )
    return fit_folder(classifier, files), files


def _refuse_options(support: Path, chosen: dict[str, bool]) -> None:
    """Refuse options that a saved classifier brings itself."""
    from anyshot.core.errors import SettingsError

    for option in (name for name, given in chosen.items() if given):
        raise SettingsError(
            f"{support} is a saved classifier with its own {option}; drop {option}."
        )


def _load_saved(
    path: Path,
    device: str,
    trust_code: bool,
    class_prior: str | None,
    unknown_threshold: float | None,
) -> tuple[AnyShotClassifier, LabelledFiles]:
    """A saved classifier, and numbers instead of the files that it was fitted to."""
    from anyshot.classifier import AnyShotClassifier
    from anyshot.classifier.class_prior import parse_class_prior
    from anyshot.classifier.folders import LabelledFiles

    classifier = AnyShotClassifier.load(path, device=device, trust_code=trust_code)
    if class_prior is not None:
        classifier.set_class_prior(parse_class_prior(class_prior))
    if unknown_threshold is not None:
        classifier.set_params(unknown_threshold=unknown_threshold)
    labels = [str(label) for label in classifier.classes_[classifier.labels_]]
    names = [Path(f"photo {i + 1} of {path.name}") for i in range(len(labels))]
    return classifier, LabelledFiles(names, labels, [])


def resolve_backbone(backbone: str, weights: str) -> tuple[str, str]:
    """Backbone and weights of the classifier; a run given as --weights is the backbone."""
    from anyshot.core.errors import SettingsError
    from anyshot.runs import pretrained

    if weights not in pretrained.pretrained_models() and not (Path(weights) / "run.json").is_file():
        return backbone, weights
    if backbone != DEFAULT:
        raise SettingsError(
            f"--weights {weights} is a run and brings its own backbone; drop --backbone {backbone}."
        )
    return f"conv4:{weights}", LEARNER


def log_shift(answers: Sequence[Classification]) -> None:
    """Warn if many new photos are unlike all classes; for the calibrated threshold only."""
    from anyshot.classifier.predictions import describe_shift

    if shift := describe_shift(sum(answer.unknown for answer in answers), len(answers)):
        log.warning("%s", shift)


def print_skipped(root: Path, files: LabelledFiles) -> None:
    """Name the files that were skipped, in one line for each reason."""
    from anyshot.core.text import readable

    for reason in dict.fromkeys(reason for _, reason in files.skipped):
        names = [path for path, other in files.skipped if other == reason]
        if len(names) == 1:
            log.warning("%s: skipped %s (%s)", readable(root), names[0], reason)
            continue
        shown = ", ".join(names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        log.warning(
            "%s: skipped %d files (%s): %s%s", readable(root), len(names), reason, shown, more
        )
