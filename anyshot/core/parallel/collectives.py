"""Work that ranks share: tasks dealt to them, gradients summed, results for all.

Tasks are independent and each brings its own random numbers, so ranks share nothing but sums, and these are made in the
order of the tasks: no bit of a result depends on the number of ranks. With one rank everything here is a plain loop.
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
from anyshot.core.parallel.ranks import LOST, ProcessGroup, current_group, is_rank_zero, world_size
from anyshot.core.parallel.scheduling import assign_longest_first
from anyshot.core.parallel.threads import map_tasks

T = TypeVar("T")
R = TypeVar("R")
Part = tuple[Sequence[Tensor], R]  #: an item's gradients and whatever else it has to tell


def map_and_sum_gradients(
    function: Callable[[T], Part[R]],
    items: Sequence[T],
    like: Sequence[Tensor],
    workers: int | None = None,
    size: Callable[[T], float] | None = None,
) -> tuple[list[Tensor], list[R]]:
    """Σ of the items' gradients, which have the shapes of ``like``, and what else ``function`` returned for each item.

    Items are dealt to the ranks by what items of their ``size`` have cost so far. Gradients are added in the order of
    the items, whoever computed them.
    """
    group = current_group()
    if group is None:
        alone = map_tasks(function, items, workers, size=size)
        return [reduce(add, parts) for parts in zip(*(g for g, _ in alone), strict=True)], [
            r for _, r in alone
        ]
    sizes = [size(item) if size else 1.0 for item in items]
    dealt = assign_longest_first(group.cost.predict(sizes), group.size)

    def timed(i: int) -> tuple[Part[R], float]:
        began = time.perf_counter()
        return function(items[i]), time.perf_counter() - began

    began = time.perf_counter()
    results = map_tasks(timed, dealt[group.rank], workers, size=lambda i: sizes[i])
    busy = time.perf_counter() - began
    told = all_gather([(rest, seconds) for (_, rest), seconds in results], busy)
    group.worked([busy for _, busy in told])
    each = {
        i: one
        for tasks, (ones, _) in zip(dealt, told, strict=True)
        for i, one in zip(tasks, ones, strict=True)
    }
    for i, item_size in enumerate(sizes):
        group.cost.update(item_size, each[i][1])
    return ordered_all_reduce(group, [g for (g, _), _ in results], dealt, like), [
        each[i][0] for i in range(len(items))
    ]


def ordered_all_reduce(
    group: ProcessGroup,
    own: Sequence[Sequence[Tensor]],
    dealt: Sequence[Sequence[int]],
    like: Sequence[Tensor],
) -> list[Tensor]:
    """The ranks' gradients added in the order of the tasks: every rank adds up its part of the numbers for all tasks,
    and then gives its sums to all. For k tasks a rank that moves (k + 1) / 2 times the bytes of an all-reduce."""
    numbers = sum(value.numel() for value in like)
    width = -(-numbers // group.size)  # of a part
    rows = like[0].new_zeros(len(own), group.size * width, device=group.device)
    for row, gradients in zip(rows, own, strict=True):
        row[:numbers].copy_(torch.cat([g.reshape(-1) for g in gradients]))
    parts = rows.view(len(own), group.size, width).transpose(0, 1).reshape(-1)
    found = rows.new_empty(sum(map(len, dealt)) * width)
    total = rows.new_empty(group.size * width)
    with _together():
        dist.all_to_all_single(
            found, parts, [len(t) * width for t in dealt], [len(own) * width] * group.size
        )
        by_task = dict(
            zip([i for tasks in dealt for i in tasks], found.view(-1, width), strict=True)
        )
        dist.all_gather(
            list(total.view(group.size, width)), reduce(add, (by_task[i] for i in sorted(by_task)))
        )
    group.sent += (len(own) + 1) * (group.size - 1) * width * rows.element_size()
    pieces = total[:numbers].to(like[0].device).split([value.numel() for value in like])
    return [piece.view(value.shape) for piece, value in zip(pieces, like, strict=True)]


def all_gather(*mine: Any) -> list[Any]:
    """What every rank has to tell, rank by rank; to all of them."""
    told: list[Any] = [None] * world_size()
    with _together():
        dist.all_gather_object(told, mine)
    return told


def my_indices(items: int) -> range:
    """The items of this rank, where many are dealt in turn."""
    return range(group.rank, items, group.size) if (group := current_group()) else range(items)


def progress_increment(item: int, items: int) -> int:
    """How many items are done, on all ranks, when one of the first rank's is."""
    return min(world_size(), items - item)


def gather_from_others(value: T) -> list[T]:
    """What the other ranks give for this value."""
    group = current_group()
    return (
        [one for number, (one,) in enumerate(all_gather(value)) if number != group.rank]
        if group
        else []
    )


def map_and_gather(
    function: Callable[[T], R],
    items: Sequence[T],
    workers: int | None = None,
    advance: Callable[[int], object] = lambda n: None,
) -> list[R]:
    """:func:`anyshot.core.parallel.threads.map_tasks` over all ranks, in turn; every rank gets all results."""

    def one(item: int) -> R:
        result = function(items[item])
        advance(progress_increment(item, len(items)))
        return result

    found = dict(zip(mine := my_indices(len(items)), map_tasks(one, mine, workers), strict=True))
    for other in gather_from_others(found):
        found |= other
    return [found[i] for i in range(len(items))]


def broadcast_from_rank_zero(make: Callable[[], T]) -> T:
    """What ``make`` returns on the first rank, on all of them."""
    if current_group() is None:
        return make()
    box: list[Any] = [make() if is_rank_zero() else None]
    with _together():
        dist.broadcast_object_list(box)
    return box[0]


def broadcast_tensors(tensors: Iterable[Tensor]) -> None:
    """Give all ranks the first one's numbers: processors of different kinds may round differently."""
    group = current_group()
    if group is None:
        return
    with _together():
        for tensor in tensors:
            there = tensor.detach().to(group.device)
            dist.broadcast(there, 0)
            tensor.detach().copy_(there)


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # as torch's DistError is one
        reason = str(error).splitlines()[0]
        raise AnyshotError(LOST.format(f" ({reason})")) from error
