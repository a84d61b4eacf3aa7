"""One training run in several processes, on one machine or many, started by torchrun.

    torchrun --nproc-per-node 4 -m anyshot train runs/taml

Every process is a rank. Rank 0 writes files and prints; :mod:`anyshot.core.parallel.collectives`
has the operations that ranks do together. Without torchrun there is one rank. Importing this module
does not load torch.
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

GRACE = 5.0  #: seconds that rank 0 has to print an error that happens before the group exists
RANK_LOST = (
    "Another rank has ended or cannot be reached, so this rank ends too{}. Run the same command "
    "again to continue from the last checkpoint; torchrun --max-restarts N does so by itself."
)


@dataclass
class ProcessGroup:
    """The group of ranks as one of its members sees it, with statistics of their work."""

    rank: int
    size: int
    device: torch.device  #: where tensors are exchanged
    cost: CostModel = field(default_factory=CostModel)
    steps: int = 0  #: since the last report
    busy: float = 0.0  #: seconds, summed over ranks
    longest: float = 0.0  #: seconds of the slowest rank, summed over steps
    sent: int = 0  #: bytes sent by this rank

    def record_step(self, busy: Sequence[float]) -> None:
        """Record a step in which rank i worked for ``busy[i]`` seconds."""
        self.steps += 1
        self.busy += sum(busy)
        self.longest += max(busy)


_group: ProcessGroup | None = None
_store: Any = None  # torch's key-value store; it outlives the group, so that errors can use it


def launched_by_torchrun() -> bool:
    """Return whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def rank() -> int:
    """Return the rank that torchrun gave this process; 0 without torchrun."""
    return int(os.environ["RANK"]) if launched_by_torchrun() else 0


def local_rank() -> tuple[int, int]:
    """Return the rank of this process on its machine and the number of ranks there."""
    if not launched_by_torchrun():
        return 0, 1
    return int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])


def world_size() -> int:
    """Return the number of ranks in the current group; 1 without a group."""
    return _group.size if _group else 1


def current_group() -> ProcessGroup | None:
    """Return the current group of several ranks, or None."""
    return _group


def is_rank_zero() -> bool:
    """Return whether this rank writes files and prints."""
    return _group is None or _group.rank == 0


def on_rank_zero(context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """Return the context manager on rank 0 and one that does nothing on others."""
    return context if is_rank_zero() else nullcontext()


def rank_zero_only(function: Callable[P, None]) -> Callable[P, None]:
    """Make a function that writes do nothing on ranks other than 0."""

    @wraps(function)
    def wrapped(*positional: P.args, **named: P.kwargs) -> None:
        if is_rank_zero():
            function(*positional, **named)

    return wrapped


def utilisation() -> dict[str, float]:
    """Return statistics since the last call: number of ranks, share of idle time, bytes for a step.

    Empty without a group or without steps.
    """
    if _group is None or not _group.steps:
        return {}
    idle = 1 - _group.busy / (_group.size * _group.longest)
    report = {"ranks": _group.size, "idle": idle, "bytes": _group.sent / _group.steps}
    _group.steps = 0
    _group.busy = 0.0
    _group.longest = 0.0
    _group.sent = 0
    return report


def claims_error_message() -> bool:
    """Return whether this rank prints the error: only the first rank that calls this does."""
    if _store is None:
        time.sleep(GRACE if rank() else 0.0)  # rank 0 prints the same, and torchrun ends this rank
        return True
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # print before torchrun ends this rank
    try:
        return _store.add("error_messages", 1) == 1
    except RuntimeError:  # the machine with the store is gone
        return True


@contextmanager
def only_rank_zero_prints() -> Iterator[None]:
    """Discard what ranks other than 0 print."""
    if not rank():
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as null,
        redirect_stdout(null),
        redirect_stderr(null),
    ):
        yield


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the ranks that torchrun started during the block; without torchrun do nothing.

    Inside the block, training, pre-training and evaluation are distributed over the ranks. The
    ranks of a machine share its cores.

    Parameters
    ----------
    device : torch.device
        Device of this rank (:func:`anyshot.choose_device`). Ranks on CUDA communicate by NCCL,
        others by gloo.

    Examples
    --------
    >>> import torch
    >>> with process_group(torch.device("cpu")):  # started without torchrun: one rank
    ...     world_size()
    1
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
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=_store, rank=number, world_size=size)
    _group = ProcessGroup(number, size, device if cuda else torch.device("cpu"))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end_after_loss)
    try:
        yield
        dist.destroy_process_group()  # not after a failure: it could wait for ranks that are gone
    finally:
        _group = None


def _agree_on_session(store: Any, number: int, size: int) -> str:
    """Return a name that all ranks of this start share and that no earlier start used.

    torchrun keeps its key-value store when it restarts the ranks, and with it the addresses of
    ranks that have ended; a group that reads those cannot connect
    (https://github.com/pytorch/pytorch/issues/135712). A prefix that is new at each start keeps the
    keys apart. TORCHELASTIC_RESTART_COUNT cannot be that prefix, because machines count separately.

    The protocol, for each rank r > 0::

        rank r                                    rank 0
        token = random
        set  token/r = token            ───────▶  read token/r (may be one of an earlier start)
        wait for answer/token           ◀───────  set  answer/token = session
        set  session/r = "here"         ───────▶  wait until session/r exists for all r

    Rank 0 answers every token that it finds and repeats this until all ranks are present. Answers
    to tokens of earlier starts are read by no one.
    """
    token = uuid.uuid4().hex
    if number:
        store.set(f"anyshot/token/{number}", token)
        session = store.get(f"anyshot/answer/{token}").decode()
        store.set(f"anyshot/{session}/{number}", "here")
        return session
    session = token
    missing = set(range(1, size))
    while missing:
        for other in [other for other in missing if store.check([f"anyshot/token/{other}"])]:
            other_token = store.get(f"anyshot/token/{other}").decode()
            store.set(f"anyshot/answer/{other_token}", session)
        missing = {other for other in missing if not store.check([f"anyshot/{session}/{other}"])}
        time.sleep(0.01 if missing else 0.0)
    return session


@contextmanager
def local_only() -> Iterator[None]:
    """Let this rank work without the others during the block."""
    global _group
    before = _group
    _group = None
    try:
        yield
    finally:
        _group = before


def _end_after_loss(*_: object) -> None:
    """Handle the SIGTERM that torchrun sends to the other ranks when one has ended.

    Files are written atomically, so exiting at any time is safe.
    """
    if claims_error_message():
        with suppress(OSError):
            os.write(2, f"anyshot: {RANK_LOST.format('')}\n".encode())
    os._exit(1)
