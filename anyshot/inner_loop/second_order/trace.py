"""What an evaluation of a loss keeps for its repetition in the backward pass."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

KEPT_BYTES = 16 << 20  #: of kept results in each thread; older evaluations lose theirs first


class _Result(NamedTuple):
    tensor: Tensor
    version: int  #: increases when the tensor is changed in place


class Kept(dict[tuple[int, str], _Result]):
    """Results of products, by the number of the product and what was computed."""

    @property
    def bytes(self) -> int:
        """Memory of the tensors."""
        return sum(result.tensor.nbytes for result in self.values())

    def limit_memory(self) -> None:
        """Drop results that were changed in place; drop those of older evaluations beyond a limit.

        The evaluations of the last inner steps are the first to be repeated.
        """
        for key, (tensor, version) in list(self.items()):
            if tensor._version != version:
                del self[key]
        earlier = [kept for ref in getattr(_thread, "kept", []) if (kept := ref())]
        total = 0
        for kept in (self, *earlier):
            total += kept.bytes
            if total > KEPT_BYTES:
                kept.clear()
        _thread.kept = [weakref.ref(kept) for kept in (self, *earlier) if kept]


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
        self.kept_bytes = 0
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

    def result(self, what: str, compute: Callable[[], Tensor]) -> Tensor:
        """The kept result, or that of ``compute``."""
        trace, key = self.trace, (self.number, what)
        if not trace.keep:
            known = trace.kept.pop(key, None)
            return compute() if known is None else known.tensor
        if key in trace.kept:  # the loss itself computes gradients: which result is which?
            trace.keep = False
            trace.kept.clear()
            return compute()
        tensor = compute()
        if trace.kept_bytes + tensor.nbytes <= KEPT_BYTES:
            trace.kept_bytes += tensor.nbytes
            trace.kept[key] = _Result(tensor.detach(), tensor._version)
        return tensor
