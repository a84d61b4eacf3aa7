"""Training a run: pre-training and meta-training, each started, resumed or extended."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from anyshot.core.errors import RunError, SettingsError
from anyshot.core.parallel import ranks
from anyshot.core.parallel.collectives import broadcast_from_rank_zero
from anyshot.core.settings import Settings
from anyshot.data import ImageSet
from anyshot.runs.initial_body import open_initial_body
from anyshot.runs.open_run import open_or_create_run
from anyshot.runs.run import PRETRAIN_FOLDER, Run
from anyshot.runs.training_lock import exclusive_training
from anyshot.runs.training_log import Callback
from anyshot.training.loop import TrainContext
from anyshot.training.meta_training import MetaTraining
from anyshot.training.presets import pretraining_settings
from anyshot.training.pretraining import Pretraining

log = logging.getLogger(__name__)


def train(
    settings: Settings,
    folder: str | Path,
    *,
    imagesets: Sequence[ImageSet] | None = None,
    ood: Sequence[ImageSet] | None = None,
    workers: int | None = None,
    command: str = "",
    callback: Callback | None = None,
    tensorboard: bool | None = None,
    device: str = "cpu",
) -> Run:
    """Train a run through the stages of its settings, or continue the run in a folder.

    The stages are pre-training (in ``folder/pretrain``, if ``settings.pretrain`` is given) and
    meta-training. A run that was interrupted continues from its newest checkpoint to the same
    parameters as if it had not been. More iterations than before extend a finished run, unless its
    learning rate decays. A call that fails before the first step leaves nothing behind. Inside
    :func:`anyshot.core.parallel.ranks.process_group` the processes that torchrun started train one
    run together, to the same bits.

    Parameters
    ----------
    settings : Settings
        For example ``anyshot.preset("cifar-fs")``.
    folder : str or Path
        The run's folder: settings, log and checkpoints.
    imagesets, ood : sequence of ImageSet, optional
        Image sets to train on and to validate out of distribution; by default those that the
        settings name. A run that continues needs the images that it started with.
    workers : int, optional
        Tasks at once; by default one for each core. Changes no result.
    command : str
        The command line, for ``run.json``.
    callback : callable, optional
        Called with every record of the log, such as ``{"kind": "iteration", "loss": 1.2}``.
    tensorboard : bool, optional
        Write TensorBoard event files; None: if TensorBoard is installed.
    device : str
        "cpu", "cuda", "mps" or "auto". A run may continue on another device.

    Returns
    -------
    Run
        The finished run.

    Raises
    ------
    SettingsError
        If the settings are not :class:`anyshot.Settings` or do not fit the images.
    RunError
        If the folder has a run with other settings.

    Examples
    --------
    >>> import anyshot, dataclasses, tempfile
    >>> settings = anyshot.preset("glyphs", method="protonet")
    >>> schedule = anyshot.TrainSettings(iterations=1, meta_batch=1, validation_tasks=1)
    >>> settings = dataclasses.replace(settings, train=schedule)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = anyshot.train(settings, folder, tensorboard=False)
    ...     len(list(run.records("iteration")))
    1
    """
    _check_settings(settings)
    context = TrainContext(workers, device, callback, tensorboard)
    sources: dict[str, Any] = {"imagesets": imagesets, "ood": ood, "command": command}
    if settings.pretrains_only:
        return _pretrain(settings, folder, sources, context)
    with _lock_and_enable_gradients(folder):
        run, image_sets, body = open_or_create_run(settings, folder, **sources)
        for sentence in image_sets.describe():
            log.info("%s", sentence)
        stage = MetaTraining(run, image_sets.images, image_sets.ood, context)
        for sentence in stage.size_warnings():
            log.warning("%s", sentence)
        if settings.pretrain is not None and not broadcast_from_rank_zero(run.has_checkpoint):
            pretrained = _pretrain(settings, run.folder / PRETRAIN_FOLDER, sources, context)
            body = open_initial_body(str(pretrained.folder))
            body.check_leakage(run.sets)
            run.record_body({**body.record(), "source": PRETRAIN_FOLDER})
        if body is not None:
            body.load_into(stage.method)
        return stage.train()


def pretrain(
    settings: Settings,
    folder: str | Path,
    *,
    imagesets: Sequence[ImageSet] | None = None,
    ood: Sequence[ImageSet] | None = None,
    workers: int | None = None,
    command: str = "",
    callback: Callback | None = None,
    tensorboard: bool | None = None,
    device: str = "cpu",
) -> Run:
    """Pre-train the backbone of some settings alone, or continue such a run.

    Any method can start from the result: ``settings.with_initial_body(folder)`` in Python,
    ``--from folder`` on the command line. The meta-training of the settings is ignored; without a
    pre-training stage they get the default one.

    Parameters
    ----------
    settings : Settings
        For example ``anyshot.preset("cifar-fs")``.
    folder, imagesets, ood, workers, command, callback, tensorboard, device
        As in :func:`anyshot.train`.

    Returns
    -------
    Run
        The finished run; its method is a prototypical network with this backbone.

    Examples
    --------
    >>> import anyshot, numpy, tempfile
    >>> pixels = numpy.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), dtype="uint8")
    >>> classes = {"a": pixels, "b": 255 - pixels}
    >>> images = anyshot.ImageSet.from_arrays("noise", classes, {"train": ["a", "b"]})
    >>> settings = anyshot.Settings(pretrain=anyshot.PretrainSettings(epochs=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = anyshot.pretrain(settings, folder, imagesets=[images], tensorboard=False)
    ...     run.settings.method.name
    'protonet'
    """
    _check_settings(settings)
    context = TrainContext(workers, device, callback, tensorboard)
    sources: dict[str, Any] = {"imagesets": imagesets, "ood": ood, "command": command}
    started = Run.find_started(folder)
    if started is not None and not started.settings.pretrains_only:
        raise RunError(f"'{folder}' holds a run with meta-training; anyshot train continues it.")
    return _pretrain(settings, folder, sources, context)


def _pretrain(
    settings: Settings, folder: str | Path, sources: dict[str, Any], context: TrainContext
) -> Run:
    with _lock_and_enable_gradients(folder):
        run, image_sets, _ = open_or_create_run(pretraining_settings(settings), folder, **sources)
        return Pretraining(run, image_sets.images, image_sets.ood, context).train()


@contextmanager
def _lock_and_enable_gradients(folder: str | Path) -> Iterator[None]:
    """Lock the run's folder, and compute with gradients whatever the caller's mode is."""
    with (
        ranks.on_rank_zero(exclusive_training(folder)),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield


def _check_settings(settings: object) -> None:
    if not isinstance(settings, Settings):
        raise SettingsError(
            f"Expected anyshot.Settings, not {type(settings).__name__}; write for example "
            "anyshot.Settings(images=('glyphs',), method=…) or anyshot.preset('glyphs')."
        )
