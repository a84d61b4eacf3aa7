"""Several trained methods as one: the average of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from anyshot.core.errors import SettingsError
from anyshot.data.tasks import Task
from anyshot.methods.base import Method
from anyshot.methods.predictor import Images, Labels, Predictor


class Ensemble(Method):
    """Average the probabilities of several trained methods. It cannot be trained.

    Parameters
    ----------
    members : sequence of Method
        For images of one size. The settings and the body of the first are shown as the ensemble's.

    Raises
    ------
    SettingsError
        If there are no members, or they take images of different sizes.

    Examples
    --------
    >>> import anyshot
    >>> members = [
    ...     anyshot.create_method(anyshot.MethodSettings(name="protonet"), seed=seed)
    ...     for seed in (0, 1)
    ... ]
    >>> ensemble = anyshot.Ensemble(members)
    >>> images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    >>> p, p0, p1 = (
    ...     method.adapt(images, [0, 0, 0, 1, 1, 1])(images) for method in (ensemble, *members)
    ... )
    >>> bool(torch.allclose(p, (p0 + p1) / 2))
    True
    """

    def __init__(self, members: Sequence[Method]) -> None:
        nn.Module.__init__(self)  # the members own all parameters
        if not members:
            raise SettingsError("An ensemble needs at least one member.")
        first = members[0]
        for member in members:
            if (member.body.image_size, member.body.image_channels) != (
                first.body.image_size,
                first.body.image_channels,
            ):
                raise SettingsError(
                    f"The members of an ensemble take images of {first.body.image_size} and "
                    f"{member.body.image_size} pixels; choose members for images of one size."
                )
        self.members = nn.ModuleList(members)
        self.settings, self.options = first.settings, first.options
        self.body, self.way = first.body, first.way

    def adapt(
        self,
        images: Images,
        labels: Labels,
        noise: torch.Generator | None = None,
        prediction: str | None = None,
    ) -> Predictor:
        """Adapt each member; see :meth:`Method.adapt`."""
        predictors = [member.adapt(images, labels, noise, prediction) for member in self._methods]

        def probabilities(queries: Tensor) -> Tensor:
            return torch.stack([p.probabilities(queries) for p in predictors]).mean(0)

        transductive = any(predictor.warn_small_batch for predictor in predictors)
        way = predictors[0].way
        return Predictor(probabilities, self.body, self.reference_tensor, way, transductive)

    def embed(self, *arguments: Any, **named: Any) -> Tensor:
        """An ensemble has no features of its own.

        Raises
        ------
        SettingsError
            Always.
        """
        raise SettingsError(
            "An ensemble has no features of its own; use one of its members (Ensemble.members, or "
            "the folder of one of its runs)."
        )

    def predict(
        self, task: Task, noise: torch.Generator | None = None, prediction: str | None = None
    ) -> Tensor:
        """Average of the members' probabilities [M, C] of the query images."""
        each = [member.predict(task, noise, prediction) for member in self._methods]
        return torch.stack(each).mean(0)

    @property
    def _methods(self) -> list[Method]:
        return [member for member in self.members if isinstance(member, Method)]
