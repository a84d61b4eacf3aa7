"""The requests that change a workspace, and the values in their bodies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anyshot.classifier.web.examples import add_examples
from anyshot.classifier.web.limits import RequestRefused
from anyshot.classifier.web.workspace import Workspace

BATCH_NAME = 40  # characters
Change = Callable[[Workspace, str, dict[str, Any]], None]

#: What a request changes in a workspace, given the id in its path and the values in its body.
CHANGES: dict[tuple[str, str], Change] = {
    ("POST", "/api/classes"): lambda w, key, values: w.add_class(
        _text(values, "name"), _batch(values)
    ),
    ("PATCH", "/api/classes/{key}/name"): lambda w, key, values: w.rename_class(
        key, _text(values, "name")
    ),
    ("PATCH", "/api/classes/{key}/used"): lambda w, key, values: w.use_photos(
        key, _count(values, "used"), _batch(values)
    ),
    ("DELETE", "/api/classes/{key}"): lambda w, key, values: w.remove_class(key),
    ("POST", "/api/pictures/move"): lambda w, key, values: w.move_photos(
        _texts(values, "photos"), _text(values, "target")
    ),
    ("POST", "/api/pictures/remove"): lambda w, key, values: w.remove_photos(
        _texts(values, "photos")
    ),
    ("PATCH", "/api/prior"): lambda w, key, values: w.choose_prior(_yes(values, "as_given")),
    ("PATCH", "/api/threshold"): lambda w, key, values: w.choose_threshold(
        _number(values, "threshold")
    ),
    ("POST", "/api/confirm"): lambda w, key, values: w.confirm_labels(_texts(values, "photos")),
    ("POST", "/api/undo"): lambda w, key, values: w.undo(),
    ("POST", "/api/redo"): lambda w, key, values: w.redo(),
    ("POST", "/api/examples"): lambda w, key, values: add_examples(w),
    ("POST", "/api/project"): lambda w, key, values: w.start_project(
        _texts(values, "classes"),
        _yes(values, "as_given"),
        None if values.get("threshold") is None else _number(values, "threshold"),
        _batch(values),
    ),
}


def parse_json(body: bytes) -> dict[str, Any]:
    """The values in a request's body."""
    try:
        values = json.loads(body or b"{}")
    except (ValueError, RecursionError):  # the latter if it is nested thousands of levels deep
        values = None
    if not isinstance(values, dict):
        raise RequestRefused("The request's body is not a JSON object.")
    return values


def _text(values: dict[str, Any], key: str) -> str:
    if not isinstance(values.get(key), str):
        raise RequestRefused(f"The request lacks the text {key!r}.")
    return values[key].encode(errors="replace").decode()  # JSON may contain lone surrogates


def _texts(values: dict[str, Any], key: str) -> list[str]:
    found = values.get(key)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise RequestRefused(f"The request lacks the list of texts {key!r}.")
    return [text.encode(errors="replace").decode() for text in found]


def _yes(values: dict[str, Any], key: str) -> bool:
    if not isinstance(values.get(key), bool):
        raise RequestRefused(f"The request lacks {key!r}, true or false.")
    return values[key]


def _number(values: dict[str, Any], key: str) -> float:
    if type(values.get(key)) not in (int, float):
        raise RequestRefused(f"The request lacks the number {key!r}.")
    return float(values[key])


def _batch(values: dict[str, Any]) -> str:
    return _text(values, "batch")[:BATCH_NAME] if "batch" in values else ""


def _count(values: dict[str, Any], key: str) -> int:
    if type(values.get(key)) is not int:
        raise RequestRefused(f"The request lacks the whole number {key!r}.")
    return values[key]
