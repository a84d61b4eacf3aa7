"""Operations that all ranks do together: distribute tasks, sum gradients, share results.

Tasks are independent and each has its own random numbers. Gradients are summed in the order of the
tasks, so no bit of a result depends on the number of ranks. With one rank all of this is a plain
loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import (
    RANK_LOST,
    ProcessGroup,
    current_group,
    is_rank_zero,
    world_size,
)
from anyshot.core.parallel.scheduling import assign_longest_first
from anyshot.core.parallel.threads import map_tasks

T = TypeVar("T")
R = TypeVar("R")
Contribution = tuple[Sequence[Tensor], R]  #: the gradients of an item and its other results


def map_and_sum_gradients(
    function: Callable[[T], Contribution[R]],
    items: Sequence[T],
    like: Sequence[Tensor],
    workers: int | None = None,
    size: Callable[[T], float] | None = None,
) -> tuple[list[Tensor], list[R]]:
    """Apply a function to all items on all ranks and sum the gradients that it returns.

    Parameters
    ----------
    function : callable
        item -> (gradients, other results).
    items : sequence
        The same on every rank; each rank computes some of them, chosen by predicted cost.
    like : sequence of Tensor
        Tensors with the shapes of the gradients.
    workers : int, optional
        Threads of this rank. Default: the number of cores.
    size : callable, optional
        Size of an item, from which its cost is predicted.

    Returns
    -------
    (list of Tensor, list)
        Σ of the gradients, added in the order of the items, and the other results of every item.
    """
    group = current_group()
    if group is None:
        computed = map_tasks(function, items, workers, size=size)
        gradients = [gradient for gradient, _ in computed]
        sums = [reduce(add, parts) for parts in zip(*gradients, strict=True)]
        return sums, [result for _, result in computed]
    sizes = [size(item) if size else 1.0 for item in items]
    assigned = assign_longest_first(group.cost.predict(sizes), group.size)

    def compute(i: int) -> tuple[Contribution[R], float]:
        start = time.perf_counter()
        return function(items[i]), time.perf_counter() - start

    start = time.perf_counter()
    computed_here = map_tasks(compute, assigned[group.rank], workers, size=lambda i: sizes[i])
    busy = time.perf_counter() - start
    gathered = all_gather([(result, seconds) for (_, result), seconds in computed_here], busy)
    group.record_step([busy for _, busy in gathered])
    by_item: dict[int, tuple[R, float]] = {}
    for tasks, (results, _) in zip(assigned, gathered, strict=True):
        by_item.update(zip(tasks, results, strict=True))
    for i, item_size in enumerate(sizes):
        group.cost.update(item_size, by_item[i][1])
    own_gradients = [gradients for (gradients, _), _ in computed_here]
    sums = ordered_all_reduce(group, own_gradients, assigned, like)
    return sums, [by_item[i][0] for i in range(len(items))]


def ordered_all_reduce(
    group: ProcessGroup,
    own: Sequence[Sequence[Tensor]],
    assigned: Sequence[Sequence[int]],
    like: Sequence[Tensor],
) -> list[Tensor]:
    """Sum the gradients of all ranks in the order of the tasks.

    Every rank receives one slice of the gradients of all tasks (all-to-all), sums it in order, and
    sends the sum to all (all-gather). A rank with k tasks sends (k + 1) / 2 times the bytes of an
    ordinary all-reduce, whose order of summation depends on the number of ranks.

    Parameters
    ----------
    group : ProcessGroup
        The ranks.
    own : sequence of sequences of Tensor
        Gradients of each task of this rank.
    assigned : sequence of sequences of int
        Tasks of each rank.
    like : sequence of Tensor
        Tensors with the shapes and device of the result.
    """
    numbers = sum(value.numel() for value in like)
    width = -(-numbers // group.size)  # of a slice, rounded up
    rows = like[0].new_zeros(len(own), group.size * width, device=group.device)
    for row, gradients in zip(rows, own, strict=True):
        row[:numbers].copy_(torch.cat([g.reshape(-1) for g in gradients]))
    outgoing = rows.view(len(own), group.size, width).transpose(0, 1).reshape(-1)
    incoming = rows.new_empty(sum(map(len, assigned)) * width)
    total = rows.new_empty(group.size * width)
    received = [len(tasks) * width for tasks in assigned]
    sent = [len(own) * width] * group.size
    with _report_lost_ranks():
        dist.all_to_all_single(incoming, outgoing, received, sent)
        order = [i for tasks in assigned for i in tasks]
        by_task = dict(zip(order, incoming.view(-1, width), strict=True))
        own_slice = reduce(add, (by_task[i] for i in sorted(by_task)))
        dist.all_gather(list(total.view(group.size, width)), own_slice)
    group.sent += (len(own) + 1) * (group.size - 1) * width * rows.element_size()
    pieces = total[:numbers].to(like[0].device).split([value.numel() for value in like])
    return [piece.view(value.shape) for piece, value in zip(pieces, like, strict=True)]


def all_gather(*values: Any) -> list[Any]:
    """Return the values of every rank, in the order of the ranks."""
    gathered: list[Any] = [None] * world_size()
    with _report_lost_ranks():
        dist.all_gather_object(gathered, values)
    return gathered


def my_indices(items: int) -> range:
    """Return the items of this rank if they are assigned in turn."""
    group = current_group()
    return range(group.rank, items, group.size) if group else range(items)


def progress_increment(item: int, items: int) -> int:
    """Return how many items all ranks have finished when rank 0 finishes one of its own."""
    return min(world_size(), items - item)


def gather_from_others(value: T) -> list[T]:
    """Return the values that the other ranks pass; empty with one rank."""
    group = current_group()
    if group is None:
        return []
    return [other for rank, (other,) in enumerate(all_gather(value)) if rank != group.rank]


def map_and_gather(
    function: Callable[[T], R],
    items: Sequence[T],
    workers: int | None = None,
    advance: Callable[[int], object] = lambda n: None,
) -> list[R]:
    """Apply a function to items, assigned to the ranks in turn; all ranks get all results."""

    def compute(item: int) -> R:
        result = function(items[item])
        advance(progress_increment(item, len(items)))
        return result

    indices = my_indices(len(items))
    results = dict(zip(indices, map_tasks(compute, indices, workers), strict=True))
    for other in gather_from_others(results):
        results |= other
    return [results[i] for i in range(len(items))]


def broadcast_from_rank_zero(make: Callable[[], T]) -> T:
    """Call ``make`` on rank 0 and return its result on all ranks."""
    if current_group() is None:
        return make()
    box: list[Any] = [make() if is_rank_zero() else None]
    with _report_lost_ranks():
        dist.broadcast_object_list(box)
    return box[0]


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Copy the numbers of rank 0 to all ranks, whose processors may round differently."""
    group = current_group()
    if group is None:
        return
    with _report_lost_ranks():
        for tensor in tensors:
            copy = tensor.detach().to(group.device)
            dist.broadcast(copy, 0)
            tensor.detach().copy_(copy)


@contextmanager
def _report_lost_ranks() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch's DistError is a RuntimeError
        reason = str(error).splitlines()[0]
        raise AnyshotError(RANK_LOST.format(f" ({reason})")) from error
