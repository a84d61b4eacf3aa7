"""Several processes, on one machine or many, as one trainer: torch.distributed, started by torchrun.

    torchrun --nproc-per-node 4 -m anyshot train runs/taml

Every process is a rank. The first writes files and speaks; :mod:`anyshot.core.parallel.collectives` is what they do together. Without
torchrun there is one rank. Importing this file does not load torch.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from anyshot.core.parallel.scheduling import CostModel
from anyshot.core.parallel.threads import limit_cores

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")

GRACE = 5.0  #: seconds in which the first rank says what went wrong before the ranks have met
LOST = (
    "Another rank has ended or cannot be reached, and so this one ends, too{}. The same command goes on from the last "
    "checkpoint; torchrun --max-restarts N does so by itself."
)


@dataclass
class ProcessGroup:
    """The ranks, seen from one of them."""

    rank: int
    size: int
    device: torch.device  #: where tensors are exchanged
    cost: CostModel = field(default_factory=CostModel)
    steps: int = 0  #: since the last report
    busy: float = 0.0  #: seconds, of all ranks
    longest: float = 0.0  #: seconds, of the slowest rank of each step
    sent: int = 0  #: bytes, by this rank

    def worked(self, busy: Sequence[float]) -> None:
        """Take note of how long each rank has worked in a step."""
        self.steps, self.busy, self.longest = (
            self.steps + 1,
            self.busy + sum(busy),
            self.longest + max(busy),
        )


_group: ProcessGroup | None = None
_store: Any = None  # torch's, which all ranks can reach; who speaks of a failure is settled there after the group


def launched_by_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def rank() -> int:
    """Our number among the ranks that torchrun started; 0 without it."""
    return int(os.environ["RANK"]) if launched_by_torchrun() else 0


def local_rank() -> tuple[int, int]:
    """Our number among the ranks of this machine, and how many they are."""
    return (
        (int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
        if launched_by_torchrun()
        else (0, 1)
    )


def world_size() -> int:
    """How many ranks work together now."""
    return _group.size if _group else 1


def current_group() -> ProcessGroup | None:
    """The ranks that work together now, where there are several."""
    return _group


def is_rank_zero() -> bool:
    """Whether this rank writes files and speaks; the only one does."""
    return _group is None or _group.rank == 0


def on_rank_zero(context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """The context, on the first rank; nothing on others."""
    return context if is_rank_zero() else nullcontext()


def rank_zero_only(method: Callable[P, None]) -> Callable[P, None]:
    """A function that writes: other ranks do nothing."""

    @wraps(method)
    def wrapped(*positional: P.args, **named: P.kwargs) -> None:
        if is_rank_zero():
            method(*positional, **named)

    return wrapped


def utilisation() -> dict[str, float]:
    """Since the last report: how many ranks there are, the share of their time that they waited for the slowest, and
    the bytes that this one sent in a step. Nothing where there is one rank, or were no steps."""
    if _group is None or not _group.steps:
        return {}
    group, waited = _group, 1 - _group.busy / (_group.size * _group.longest)
    found = {"ranks": group.size, "idle": waited, "bytes": group.sent / group.steps}
    group.steps, group.busy, group.longest, group.sent = 0, 0.0, 0.0, 0
    return found


def claims_error_message() -> bool:
    """Whether this rank is to say why it ends: the first that comes to it does, for all."""
    if _store is None:
        time.sleep(GRACE if rank() else 0.0)  # it says the same, and torchrun ends us
        return True
    if threading.current_thread() is threading.main_thread():
        signal.signal(
            signal.SIGTERM, signal.SIG_IGN
        )  # we end now; not between being the one to say it and saying it
    try:
        return _store.add("said", 1) == 1
    except RuntimeError:  # the machine that has the store is gone
        return True


@contextmanager
def only_rank_zero_prints() -> Iterator[None]:
    """What ranks other than the first print goes nowhere."""
    if not rank():
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Until the block ends the ranks that torchrun started work together; without torchrun nothing happens.

    Ranks that compute with CUDA talk by NCCL, others by gloo. The ranks of a machine share its cores.
    """
    global _group, _store
    if not launched_by_torchrun() or _group is not None:
        yield
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(device)
    limit_cores(local_rank()[1])
    store, number, size = next(rendezvous("env://"))
    _store = dist.PrefixStore(_agree_on_session(store, number, size), store)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo", store=_store, rank=number, world_size=size
    )
    _group = ProcessGroup(number, size, device if cuda else torch.device("cpu"))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _ended)
    try:
        yield
        dist.destroy_process_group()  # after a failure it could wait for those that are gone
    finally:
        _group = None


def _agree_on_session(store: Any, number: int, size: int) -> str:
    """A name that all ranks of this start have, and those of no earlier one: torchrun keeps its store when it starts
    the ranks again, and with it the addresses of those that have died.

    Each rank leaves a new word, the first answers every word it finds with the name, and is told of it. Words may be
    old, but nobody hears the answers to those.
    """
    word = uuid.uuid4().hex
    if number:
        store.set(f"anyshot/word/{number}", word)
        name = store.get(f"anyshot/answer/{word}").decode()
        store.set(f"anyshot/{name}/{number}", "here")
        return name
    missing = set(range(1, size))
    while missing:
        for other in [other for other in missing if store.check([f"anyshot/word/{other}"])]:
            store.set(f"anyshot/answer/{store.get(f'anyshot/word/{other}').decode()}", word)
        missing = {other for other in missing if not store.check([f"anyshot/{word}/{other}"])}
        time.sleep(0.01 if missing else 0.0)
    return word


@contextmanager
def local_only() -> Iterator[None]:
    """Until the block ends this rank works by itself."""
    global _group
    kept, _group = _group, None
    try:
        yield
    finally:
        _group = kept


def _ended(*_: object) -> None:
    """What torchrun tells the ranks that are left when one has died. What is on disk bears that at any moment."""
    if claims_error_message():
        with suppress(OSError):
            os.write(2, f"anyshot: {LOST.format('')}\n".encode())
    os._exit(1)
