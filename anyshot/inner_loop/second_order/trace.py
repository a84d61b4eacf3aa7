"""What an evaluation of a loss keeps for its repetition in the backward pass."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

KEPT_BYTES = 40 << 20  #: of kept results in each thread; the cheapest are dropped first


class _Result(NamedTuple):
    tensor: Tensor
    version: int  #: increases when the tensor is changed in place
    cost: int  #: multiplications of an element


class Kept(dict[tuple[int, str], _Result]):
    """Results of products, by the number of the product and what was computed."""

    @property
    def bytes(self) -> int:
        """Memory of the tensors."""
        return sum(result.tensor.nbytes for result in self.values())

    def limit_memory(self) -> None:
        """Drop results that were changed in place, and those of this thread beyond the limit.

        A result of many multiplications an element saves the most time for its memory. Among equal
        ones those of older evaluations go first: they are repeated last.
        """
        for key, result in list(self.items()):
            if result.tensor._version != result.version:
                del self[key]
        live = [self, *(kept for ref in getattr(_thread, "kept", []) if (kept := ref()))]
        drop_cheapest(live, KEPT_BYTES)
        _thread.kept = [weakref.ref(kept) for kept in live if kept]

    def move(self) -> None:
        """Copy the results, so that the memory around them can be used again as a whole."""
        for key, result in self.items():
            tensor = result.tensor.clone()
            self[key] = result._replace(tensor=tensor, version=tensor._version)


def drop_cheapest(evaluations: Sequence[Kept], limit: int) -> None:
    """Drop results of evaluations, the latest first, until the others have at most ``limit`` bytes.

    Those with the fewest multiplications an element go first.
    """
    total = sum(kept.bytes for kept in evaluations)
    if total <= limit:  # as a rule: nothing has to be sorted
        return
    results = [(kept[key].cost, -age, key) for age, kept in enumerate(evaluations) for key in kept]
    for _, age, key in sorted(results):
        if total <= limit:
            return
        total -= evaluations[-age].pop(key).tensor.nbytes


_thread = threading.local()  #: .kept: the evaluations of this thread, the latest first


class Trace:
    """One evaluation of a loss: the parameters that it is differentiated by, and its products.

    For ∇⟨g, v⟩ only the graph of the gradient g is needed, not its value. Inside
    :meth:`without_values` the gradient of a weight that is one of the parameters is not computed;
    it goes nowhere but into g. The graph is the same.

    Parameters
    ----------
    parameters : sequence of Tensor
        The parameters.
    kept : Kept, optional
        Results of an earlier evaluation, which are used once.
    keep : bool
        Whether to keep results in :attr:`kept`.
    """

    def __init__(
        self, parameters: Sequence[Tensor], kept: Kept | None = None, keep: bool = False
    ) -> None:
        self.ids = {id(p) for p in parameters}
        self.values_unused = False
        self.kept = Kept() if kept is None else kept
        self.keep = keep
        self.products = 0

    @contextmanager
    def without_values(self) -> Iterator[None]:
        """A context in which gradients of the parameters have a graph but no values."""
        self.values_unused = True
        try:
            yield
        finally:
            self.values_unused = False

    def next_product(self, weight: Tensor) -> Product:
        """The next product of the evaluation."""
        self.products += 1
        return Product(self, self.products, id(weight) in self.ids)


@dataclass(frozen=True)
class Product:
    """A product of an evaluation; ``leaf``: its weight is one of the parameters."""

    trace: Trace
    number: int
    leaf: bool

    @property
    def weight_gradient_unused(self) -> bool:
        """Whether the value of the weight's gradient goes nowhere."""
        return self.leaf and self.trace.values_unused

    def result(self, what: str, compute: Callable[[], Tensor], cost: int) -> Tensor:
        """The kept result, or that of ``compute``; ``cost``: multiplications of an element."""
        trace, key = self.trace, (self.number, what)
        if not trace.keep:
            known = trace.kept.pop(key, None)
            return compute() if known is None else known.tensor
        if key in trace.kept:  # the loss itself computes gradients: which result is which?
            trace.keep = False
            trace.kept.clear()
            return compute()
        tensor = compute()
        trace.kept[key] = _Result(tensor.detach(), tensor._version, cost)
        drop_cheapest([trace.kept], KEPT_BYTES)
        return tensor
