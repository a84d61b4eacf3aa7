"""A body that inner steps do not change: its features are computed once and replace the images."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from anyshot.inner_loop import dispatch
from anyshot.models.network import Features, Parameters
from anyshot.models.norm import QUERY_CALL, Norm


@dataclass(frozen=True, kw_only=True)
class FrozenBody:
    """The body of an inner problem that adapts the head alone.

    Parameters
    ----------
    theta : dict of str to Tensor
        Parameters of the body.
    norm : Norm
        Its normalisations.
    body : callable
        (θ, norm, images) → features [n, width].
    views : tuple of Tensor
        Views of the support images, float [N, channels, height, width]; at least one.
    centre : bool
        Whether features are centred.
    transductive : bool
        Whether query images have their own batch statistics; if not, those of the support images
        in the same view.
    engine : str
        What computes the features.
    """

    theta: Parameters
    norm: Norm
    body: Features
    views: tuple[Tensor, ...]
    centre: bool
    transductive: bool
    engine: str = "auto"
    view: int = 0  #: of query images

    def at_view(self, view: int) -> FrozenBody:
        """The same for query images in another view."""
        return replace(self, view=view)

    def support_features(self) -> tuple[Tensor, ...]:
        """Features [N, width] of each view of the support images."""
        return tuple(self._features(view, None) for view in self.views)

    def query_features(self, images: Tensor) -> Tensor:
        """Features [M, width] of query images."""
        reference = None if self.transductive else self.views[self.view]
        return self._features(images, reference, QUERY_CALL)

    def _features(self, images: Tensor, reference: Tensor | None, call: int = 0) -> Tensor:
        norm = self.norm.for_call(call)
        return dispatch.features(
            self.theta, norm, images, self.centre, reference, self.engine, self.body
        )


def pass_through(theta: Parameters, norm: Norm, features: Tensor) -> Tensor:
    """The body of a problem whose images are features already."""
    return features
