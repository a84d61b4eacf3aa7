"""What makes two runs the same: their identity, and whether one extends the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyshot.core.code_loading import Fingerprint
from anyshot.core.files import to_plain
from anyshot.core.settings import Settings
from anyshot.runs.image_record import SetRecord


def run_identity(
    settings: Settings,
    image_size: tuple[int, int],
    sets: Sequence[SetRecord],
    code: Mapping[str, Fingerprint],
    body: Mapping[str, str] | None,
) -> str:
    """Return a digest of everything that the numbers of a run depend on.

    The number of iterations and the names of image sets are left out, so that an extended run and
    a run on a copy of the images have the same identity. A run stores its identity when it starts;
    the digest is never computed again.
    """
    values = settings.as_dict()
    values["images"] = [record.checksum for record in sets]
    del values["ood"], values["train"]["iterations"], values["train"]["body_from"]
    code_digests = [record["sha256"] for record in code.values()]
    body_digest = None if body is None else body["sha256"]
    text = json.dumps(to_plain([values, image_size, code_digests, body_digest]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_longer(old: Settings, new: Settings) -> bool:
    """Return whether only the number of iterations differs, and grows."""
    same = replace(old, train=replace(old.train, iterations=new.train.iterations))
    return same == new and new.train.iterations > old.train.iterations > 0


def extends(old: Settings, new: Settings) -> bool:
    """Return whether the new settings only add iterations to the end of the old run.

    A decaying learning rate depends on the number of iterations from the start.
    """
    return is_longer(old, new) and old.train.decay == "none"
