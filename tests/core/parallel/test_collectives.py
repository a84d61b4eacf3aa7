"""Collectives between ranks that are threads of this process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add

import pytest
import torch

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel import collectives
from anyshot.core.parallel.ranks import ProcessGroup
from anyshot.core.parallel.scheduling import assign_longest_first

SHAPES = [(3,), (2, 2)]  # 7 numbers: not a multiple of the ranks


class ThreadRanks:
    """Ranks in threads, and the functions of torch.distributed between them."""

    def __init__(self, size: int) -> None:
        self.groups = [ProcessGroup(rank, size, torch.device("cpu")) for rank in range(size)]
        self.local = threading.local()
        self.barrier = threading.Barrier(size, timeout=20)
        self.values = [None] * size

    @property
    def rank(self) -> int:
        return self.local.group.rank

    def run(self, work) -> list:
        """The results of ``work()`` on all ranks."""

        def start(group):
            self.local.group = group
            return work()

        with ThreadPoolExecutor(len(self.groups)) as threads:
            return list(threads.map(start, self.groups))

    def exchange(self, value) -> list:
        self.values[self.rank] = value
        self.barrier.wait()
        values = list(self.values)
        self.barrier.wait()
        return values

    def all_gather_object(self, gathered, value) -> None:
        gathered[:] = self.exchange(value)

    def all_gather(self, parts, value) -> None:
        for part, other in zip(parts, self.exchange(value), strict=True):
            part.copy_(other)

    def all_to_all_single(self, incoming, outgoing, received, sent) -> None:
        pieces = [other.split(sizes)[self.rank] for other, sizes in self.exchange((outgoing, sent))]
        assert [len(piece) for piece in pieces] == received
        incoming.copy_(torch.cat(pieces))

    def broadcast_object_list(self, box) -> None:
        box[:] = self.exchange(list(box))[0]

    def broadcast(self, tensor, source) -> None:
        tensor.copy_(self.exchange(tensor.clone())[source])


@pytest.fixture
def ranks(monkeypatch) -> ThreadRanks:
    three = ThreadRanks(3)
    monkeypatch.setattr(collectives, "dist", three)
    monkeypatch.setattr(collectives, "current_group", lambda: three.local.group)
    monkeypatch.setattr(collectives, "world_size", lambda: 3)
    monkeypatch.setattr(collectives, "is_rank_zero", lambda: three.rank == 0)
    return three


def gradients(item: int) -> list[torch.Tensor]:
    """Numbers of different magnitudes, so that the order of a sum changes its bits."""
    rng = torch.Generator().manual_seed(item)
    return [torch.randn(shape, generator=rng) * 10.0 ** (item % 4) for shape in SHAPES]


def compute(item: int) -> tuple[list[torch.Tensor], int]:
    return gradients(item), item**2


def sum_in_order(items: list[int]) -> list[torch.Tensor]:
    return [reduce(add, parts) for parts in zip(*map(gradients, items), strict=True)]


@pytest.mark.parametrize("items", [[4, 1, 9, 2, 7, 3, 5], [1, 2]])
def test_gradients_are_summed_in_the_order_of_the_items(ranks, items):
    like = [torch.zeros(shape) for shape in SHAPES]
    results = ranks.run(
        lambda: collectives.map_and_sum_gradients(compute, items, like, workers=1, size=float)
    )
    for sums, others in results:
        assert others == [item**2 for item in items]
        assert [value.shape for value in sums] == [value.shape for value in like]
        assert all(map(torch.equal, sums, sum_in_order(items)))
    assigned = assign_longest_first(items, 3)
    for group, tasks in zip(ranks.groups, assigned, strict=True):
        slice_bytes = 3 * 4  # 7 numbers in 3 slices
        assert group.sent == slice_bytes * 2 * (len(tasks) + 1)
        assert group.steps == 1
        assert group.busy >= group.longest > 0
        assert [size for size, _ in group.cost.measurements] == items
        assert all(0 < seconds < 20 for _, seconds in group.cost.measurements)


def test_items_without_a_size_are_assigned_evenly(ranks):
    like = [torch.zeros(shape) for shape in SHAPES]
    ranks.run(lambda: collectives.map_and_sum_gradients(compute, range(6), like, workers=1))
    assert [group.cost.measurements[0][0] for group in ranks.groups] == [1.0] * 3
    assert len({group.sent for group in ranks.groups}) == 1


def test_one_rank_sums_in_the_same_order():
    items = [4, 1, 9, 2]
    sums, others = collectives.map_and_sum_gradients(compute, items, [], workers=1)
    assert others == [16, 1, 81, 4]
    assert all(map(torch.equal, sums, sum_in_order(items)))
    assert collectives.gather_from_others(1) == []
    advanced = []
    assert collectives.map_and_gather(abs, [-1, 2], 1, advanced.append) == [1, 2]
    assert advanced == [1, 1]
    values = torch.ones(2)
    collectives.broadcast_tensors([values])
    assert values.tolist() == [1, 1]


def test_results_of_all_ranks_are_gathered_in_the_order_of_the_items(ranks):
    advanced = {0: [], 1: [], 2: []}

    def work():
        return collectives.map_and_gather(abs, range(-7, 0), 1, advanced[ranks.rank].append)

    assert ranks.run(work) == [[7, 6, 5, 4, 3, 2, 1]] * 3
    assert advanced[0] == [3, 3, 1]  # progress is shown by rank 0 for all ranks


def test_items_are_assigned_in_turn(ranks):
    assert ranks.run(lambda: list(collectives.my_indices(5))) == [[0, 3], [1, 4], [2]]


def test_values_of_the_other_ranks_are_gathered(ranks):
    found = ranks.run(lambda: collectives.gather_from_others(10 * ranks.rank))
    assert found == [[10, 20], [0, 20], [0, 10]]


def test_rank_zero_decides_for_all(ranks):
    calls = []

    def make():
        calls.append(ranks.rank)
        return "made"

    assert ranks.run(lambda: collectives.broadcast_from_rank_zero(make)) == ["made"] * 3
    assert calls == [0]

    def copy():
        tensor = torch.full((2,), float(ranks.rank + 5), requires_grad=True)
        collectives.broadcast_tensors([tensor])
        return tensor.tolist()

    assert ranks.run(copy) == [[5, 5]] * 3


def test_a_lost_rank_is_one_sentence_with_the_reason(ranks, monkeypatch):
    def fail(*_):
        raise RuntimeError("Connection closed by peer\nand a stack")

    monkeypatch.setattr(ranks, "all_gather_object", fail)
    ranks.local.group = ranks.groups[0]
    with pytest.raises(AnyshotError, match=r"\(Connection closed by peer\)"):
        collectives.all_gather(1)
