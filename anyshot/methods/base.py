"""The base class of all methods.

A method owns meta-parameters. Training and evaluation use three functions of it:
``objective(task)`` for meta-training, ``adapt(images, labels)`` for a classifier and
``predict(task)`` for probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from anyshot.core.builtin_options import PREDICTIONS, MethodOptions
from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.options import parse_method_options
from anyshot.core.registry import display_name
from anyshot.core.remedy import OVERSAMPLING
from anyshot.core.settings import MethodSettings
from anyshot.data.tasks import Task, TaskStream
from anyshot.inner_loop import features
from anyshot.methods.check_body import check_body
from anyshot.methods.predictor import Images, Labels, Predictor, as_images, as_labels
from anyshot.methods.remedies import Remedy, check_remedy
from anyshot.methods.test_time_augmentation import (
    Probabilities,
    average_over_views,
    make_views,
    with_averaged_features,
)
from anyshot.models.network import Body, Norm, Parameters


@dataclass(frozen=True)
class Objective:
    """What meta-training minimises for one task, ``loss + penalty``, and what it logs.

    Parameters
    ----------
    loss : Tensor, scalar
        Mean cross-entropy of the query set.
    penalty : Tensor, scalar, or float
        Regularisation, such as KL / (N + M); 0 for methods without one.
    accuracy : float
        Share of query images that are classified correctly.
    kl : float
        The KL divergence before it is divided by N + M.

    Examples
    --------
    >>> objective = Objective(torch.tensor(1.2), penalty=0.1, accuracy=0.5)
    >>> (objective.loss + objective.penalty).item()
    1.3000...
    """

    loss: Tensor
    penalty: Tensor | float
    accuracy: float
    kl: float = 0.0


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of images whose highest score [M, way] is that of their label [M]."""
    return (scores.argmax(1) == labels).float().mean().item()


def apply_temperature(p: Tensor, temperature: float) -> Tensor:
    """Rescale probabilities [M, way] to p^(1/T) / Σ p^(1/T), the softmax at temperature T.

    >>> apply_temperature(torch.tensor([[0.8, 0.2]]), 0.5)
    tensor([[0.9412, 0.0588]])
    """
    if temperature == 1:
        return p
    return (p.clamp_min(torch.finfo(p.dtype).tiny).log() / temperature).softmax(1)


class Method(nn.Module):
    """Base class of all methods: the initial body θ and the shifts β of its normalisations.

    A subclass implements :meth:`objective` and :meth:`adapt_classifier`. Methods with an inner loop
    derive from :class:`GradientMethod`, methods that fit a classifier to features from
    :class:`anyshot.methods.embedding_method.EmbeddingMethod`.

    Parameters
    ----------
    settings : MethodSettings
        Settings that all methods share, and the options of this one (``settings.options``).
    body : Body
        The network without its head.
    generator : torch.Generator
        Source of the initial parameters. A subclass draws its own parameters from it, too.

    Attributes
    ----------
    options : Options
        Options of this method alone.
    way : int, optional
        Classes of a training task, if known; tests may have other tasks. :func:`create_method` sets
        it before the constructor runs.
    theta : nn.ParameterDict
        Initial parameters of the body.
    shift : nn.ParameterList
        Shifts β of the normalisations; the inner loop does not change them.
    constants : nn.Module
        Buffers and frozen parameters of a body that is made of a module.
    temperature : float
        Temperature of the probabilities, fitted by :mod:`anyshot.evaluation.temperature`.
    engine : str
        What computes the inner loop: "auto", "engine" or "autograd" (slower, same numbers).

    Examples
    --------
    >>> from anyshot import MethodSettings, create_method
    >>> method = create_method(MethodSettings(name="maml"), image_size=(32, 32))
    >>> images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    >>> predictor = method.adapt(images, [0, 0, 0, 1, 1, 1])
    >>> predictor(images).shape
    torch.Size([6, 2])
    """

    #: The options of this method alone: a dataclass of :func:`anyshot.core.options.option` fields,
    #: which become options of ``anyshot train``. A subclass extends the Options of its base class.
    Options: ClassVar[type] = MethodOptions
    #: Shared settings that have no effect on this method.
    unused_settings: ClassVar[tuple[str, ...]] = ()
    #: Remedies against uneven classes that change this method (anyshot.methods.remedies).
    remedies: ClassVar[tuple[str, ...]] = OVERSAMPLING

    way: int | None = None  #: classes of a training task; set before the constructor runs
    temperature = 1.0
    engine = "auto"

    def __init__(self, settings: MethodSettings, body: Body, generator: torch.Generator) -> None:
        super().__init__()
        check_body(body, settings, second_order=self.needs_hessian(settings))
        self.settings = settings
        self.body = body
        self.options: Any = parse_method_options(self.Options, settings.options)
        self.remedy = Remedy.parse(settings.remedy)
        check_remedy(self.remedy, self.name, self.remedies)
        self.theta = nn.ParameterDict(body.init_parameters(generator, settings.start))
        norm = body.norm()
        self.shift = nn.ParameterList(norm.shift)
        self.constants = nn.Module()
        for name, value in norm.constants.items():
            self.constants.register_buffer(name, value.clone())

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for base in cls.__mro__[1:]:
            inherited = getattr(base, "Options", MethodOptions)
            if inherited is not MethodOptions and not issubclass(cls.Options, inherited):
                raise CodeError(
                    f"{cls.__name__}.Options must extend the options of {base.__name__}: write "
                    f"class Options({base.__name__}.Options)."
                )

    @classmethod
    def needs_hessian(cls, settings: MethodSettings) -> bool:
        """Whether meta-training differentiates the body's features twice."""
        return False

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return display_name(self.settings.name)

    @property
    def reference_tensor(self) -> Tensor:
        """A tensor with the dtype and device of the method."""
        return next(self.parameters())

    @property
    def norm(self) -> Norm:
        """The normalisations with their shifts β, and the buffers of a module."""
        return Norm(list(self.shift), constants=dict(self.constants.named_buffers()))

    def training_norm(self, noise: torch.Generator | None) -> Norm:
        """The same for a training task, whose dropout comes from ``noise``; None: no dropout."""
        return replace(self.norm, seed=self.body.draw_seed(noise))

    def learning_rate_multipliers(self) -> dict[str, float]:
        """Parameter name -> multiple of the optimiser's learning rate, where it is not 1."""
        return {}

    def embed(
        self,
        images: Tensor,
        theta: Parameters | None = None,
        norm: Norm | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        """Compute features, differentiable once.

        Parameters
        ----------
        images : Tensor [n, channels, height, width]
        theta : dict of str to Tensor, optional
            Parameters of the body; by default the initial ones.
        norm : Norm, optional
            The normalisations; by default the initial ones.
        reference : Tensor [m, channels, height, width], optional
            Images that give the batch statistics; by default ``images``.

        Returns
        -------
        Tensor [n, width]
        """
        theta = theta or dict(self.theta)
        norm = norm or self.norm
        centre = self.settings.centre
        return features(theta, norm, images, centre, reference, self.engine, self.body.features)

    def to_input(self, images: Images) -> Tensor:
        """Convert images to float [n, channels, height, width] in [0, 1] on the method's device."""
        return as_images(images, self.body, self.reference_tensor)

    def task_tensors(self, task: Task) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Support images, support labels, query images, query labels on the method's device.

        The support set is oversampled if the settings say so.
        """
        device = self.reference_tensor.device
        support, labels = self.to_input(task.support), task.support_labels.to(device)
        support, labels = self.remedy.resample(support, labels, task.noise("oversampling"))
        return support, labels, self.to_input(task.query), task.query_labels.to(device)

    def objective(self, task: Task, noise: torch.Generator | None = None) -> Objective:
        """Compute what meta-training minimises, differentiable in the meta-parameters.

        Parameters
        ----------
        task : Task
        noise : torch.Generator, optional
            Source of all random numbers; by default ``task.noise()``, which training passes.

        Returns
        -------
        Objective
        """
        raise CodeError(f"{type(self).__name__} has no objective() and cannot be trained.")

    def before_validation(self, training: TaskStream) -> None:
        """Set state that is not learned by gradients; called before each validation.

        The same training tasks give the same state in every process.
        """

    @torch.inference_mode(False)
    @torch.no_grad()
    def adapt(
        self,
        images: Images,
        labels: Labels,
        noise: torch.Generator | None = None,
        prediction: str | None = None,
    ) -> Predictor:
        """Learn a classifier from labelled images; no graph is kept.

        Parameters
        ----------
        images : Tensor or ndarray
            uint8 [N, height, width, channels], or float [N, channels, height, width] in [0, 1].
        labels : Tensor, ndarray or sequence of int, [N]
            Integers 0..C−1, each at least once.
        noise : torch.Generator, optional
            Source of random numbers for methods that sample; by default seed 0.
        prediction : {"mc", "naive"}, optional
            Average over samples of the posterior, or use its mean; by default the method's option.

        Returns
        -------
        Predictor
            Function from images to probabilities [M, C].

        Raises
        ------
        DataError
            If images or labels have another type, shape or range.
        SettingsError
            If ``prediction`` has another value.
        """
        x = self.to_input(images)
        y = as_labels(labels, len(x), self.reference_tensor.device)
        noise = noise or torch.Generator().manual_seed(0)
        x, y = self.remedy.resample(x, y, noise)
        if prediction is None:
            prediction = str(getattr(self.options, "prediction", "mc"))
        elif prediction not in PREDICTIONS:
            raise SettingsError(
                f"The prediction is {prediction!r}; choose {' or '.join(PREDICTIONS)}."
            )
        method = with_averaged_features(self)
        classify = method.adapt_classifier(x, y, noise, prediction)

        def probabilities(queries: Tensor) -> Tensor:
            averaged = average_over_views(classify, method.views(queries))
            return apply_temperature(averaged, self.temperature)

        way = int(y.max()) + 1
        transductive = self.settings.transductive
        return Predictor(probabilities, self.body, self.reference_tensor, way, transductive)

    def adapt_classifier(
        self, images: Tensor, labels: Tensor, noise: torch.Generator, prediction: str
    ) -> Probabilities:
        """Learn from float images [N, channels, height, width] and labels [N]; see :meth:`adapt`.

        Returns
        -------
        callable
            (query images [M, channels, height, width], index of their view) -> probabilities
            [M, C].
        """
        raise CodeError(f"{type(self).__name__} has no adapt_classifier() and cannot predict.")

    def predict(
        self, task: Task, noise: torch.Generator | None = None, prediction: str | None = None
    ) -> Tensor:
        """Probabilities [M, C] of the query images after adaptation to the support set.

        The parameters are those of :meth:`adapt`; ``noise`` is ``task.noise()`` by default.
        """
        method = self
        if self.settings.flips and not task.flip_invariant:
            method = copy.copy(self)  # with the same parameters
            method.settings = replace(self.settings, flips=False)
        predictor = method.adapt(
            task.support, task.support_labels, noise or task.noise(), prediction
        )
        return predictor(task.query)

    def views(self, images: Tensor) -> Iterator[Tensor]:
        """Return the images, zoomed and shifted ones and mirror images, as the settings say."""
        s = self.settings
        return make_views(images, s.zooms, s.flips, s.shift)
