"""`AnyShotClassifier`: learns from a few images of each class and says how far to trust it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from anyshot.classifier.active_learning import choose_images
from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.class_prior import EVEN, ClassPrior, check_class_prior
from anyshot.classifier.fitted_state import Images
from anyshot.classifier.predictions import Predictions
from anyshot.classifier.repeated_images import find_matches
from anyshot.classifier.self_assessment import SelfAssessment
from anyshot.classifier.serialization import load_classifier, save_classifier
from anyshot.classifier.sklearn_compat import check_classes, check_features, check_labels, is_fitted


class AnyShotClassifier(SelfAssessment):
    """Image classifier for any number of images per class, on the features of a frozen backbone.

    Eleven heads (logistic regression, Bayesian discriminants, TAML on the head, kernel ridge
    regression) are fitted to features of several depths. A small meta-trained network weighs them
    class by class. Near-copies, such as bursts, count as one image. The estimator
    follows scikit-learn's contract.

    Parameters
    ----------
    backbone : str, Path, nn.Module, callable, Backbone or None, default "efficientnet-lite0"
        Turns images into feature vectors: a name ("efficientnet-lite0", "timm:NAME",
        "torchvision:NAME", "conv4:RUN"), the folder of a run, a module of float images
        (n, 3, side, side) in [0, 1], or a function of uint8 images (n, side, side, 3). None: the
        inputs already are feature vectors (n, n_features).
    weights : str or Path, default "photos-lite0"
        The meta-trained learner: a name (see ``anyshot weights list``) or a folder.
    quality : {"fast", "best"}, default "fast"
        "best" uses a larger network on two views of each image instead of the default backbone:
        more accurate, and several times slower (docs/classifier.md).
    side : int or None, default None
        Images are resized to side × side pixels. None: the backbone's default.
    device : str, default "cpu"
        Where the backbone runs: "cpu", "cuda", "mps" or "auto".
    trust_code : bool, default False
        Whether a run that is the backbone may execute code that does not come with anyshot.
    class_prior : {"even", "as-given"} or dict, default "even"
        How common the classes are among the images to classify: equally common, as common as
        among the images learned from, or the share of each class (any positive numbers). It takes
        effect when images are classified; `set_class_prior` changes it without a new fit.
    unknown_threshold : float or None, default None
        Images with an unknown score above it count as unknown: 0 to 1, or None for the threshold
        that flags about one in twenty known images. `unknown_tradeoff` says what a value costs.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    conflicts_ : list of (int, int)
        Pairs of the same image with different labels, as indices into `features_`.
    copies_ : list of (int, int)
        Pairs of the same image with the same label.
    features_ : ndarray of shape (n_images, n_features), float32
        The features of the images that were learned from.
    labels_ : ndarray of shape (n_images,), int64
        Their labels, as indices into `classes_`.
    adapted_ : AdaptedLearner
        The heads and the mixture, fitted to this task. Absent if there is only one class.
    weights_ : ClassifierWeights
        The meta-trained learner and its confidence model.
    backbone_ : Backbone or None
        The opened backbone. None until images are given, if the classifier was fitted to features.
    n_features_in_ : int
        Number of input features; only with ``backbone=None``.

    See Also
    --------
    anyshot.classifier.backbones.open_backbone : All forms that a backbone can have.
    anyshot.classifier.predictions.Predictions : What `classify` returns.

    References
    ----------
    Lee et al., "Learning to Balance: Bayesian Meta-Learning for Imbalanced and
    Out-of-distribution Tasks", ICLR 2020, https://arxiv.org/abs/1905.12917. Measurements:
    docs/classifier.md.

    Examples
    --------
    >>> colours = lambda pixels: pixels.mean((1, 2)) + 1.0  # a backbone: images to vectors
    >>> reds, blues = np.zeros((2, 3, 8, 8, 3), np.uint8)
    >>> reds[..., 0], blues[..., 2] = 200, 200
    >>> clf = AnyShotClassifier(backbone=colours, side=8)
    >>> clf.fit([*reds, *blues], ["red"] * 3 + ["blue"] * 3).predict([reds[0], blues[0]])
    array(['red', 'blue'], dtype='<U4')
    """

    def __init__(
        self,
        backbone: Source | None = "efficientnet-lite0",
        *,
        weights: str | Path = "photos-lite0",
        quality: str = "fast",
        side: int | None = None,
        device: str = "cpu",
        trust_code: bool = False,
        class_prior: ClassPrior = EVEN,
        unknown_threshold: float | None = None,
    ) -> None:
        self.backbone = backbone
        self.weights = weights
        self.quality = quality
        self.side = side
        self.device = device
        self.trust_code = trust_code
        self.class_prior = class_prior
        self.unknown_threshold = unknown_threshold

    # ------------------------------------------------------------------------------------- learning
    def fit(self, X: Images, y: ArrayLike) -> AnyShotClassifier:
        """Learn from labelled images. If this fails, the classifier stays as it was.

        Parameters
        ----------
        X : sequence of images
            uint8 arrays (height, width) or (height, width, 3), PIL images or paths; with
            ``backbone=None`` an array (n_images, n_features).
        y : array-like of shape (n_images,)
            The labels: text or integers, any number of images per class.

        Returns
        -------
        AnyShotClassifier
            This classifier.
        """
        with self._unchanged_on_error():
            self._start_fit()
            features, labels = self._features_and_labels(X, y, first=True)
            self._adapt(features, labels)
            self._warn_about_repeated(X)
            return self

    def fit_features(self, features: ArrayLike, y: ArrayLike) -> AnyShotClassifier:
        """Learn from features that the backbone computed before, for example by `transform`.

        Images can be classified afterwards, unless the backbone's features depend on the
        images that are learned from (``conv4:RUN``). `conflicts_` and `copies_` list equal
        images; there is no warning.

        Parameters
        ----------
        features : array-like of shape (n_images, n_features)
            The backbone's features.
        y : array-like of shape (n_images,)
            The labels.

        Returns
        -------
        AnyShotClassifier
            This classifier.
        """
        with self._unchanged_on_error():
            self._start_fit()
            checked = check_features(features)
            self._adapt(checked, check_labels(y, len(checked)))
            return self

    def partial_fit(
        self, X: Images, y: ArrayLike, classes: ArrayLike | None = None
    ) -> AnyShotClassifier:
        """Learn from more images, of old or new classes. Earlier images keep counting.

        Parameters
        ----------
        X : sequence of images
            As in `fit`.
        y : array-like of shape (n_images,)
            Their labels.
        classes : array-like, optional
            All labels that are expected, now or later. Other labels are an error. Classes without
            images so far are in `classes_`, with probability 0. Without this argument a class is
            known from its first image on.

        Returns
        -------
        AnyShotClassifier
            This classifier.
        """
        with self._unchanged_on_error():
            first = not is_fitted(self)
            if first:
                self._start_fit()
            announced = None if classes is None else check_classes(classes, y)
            features, labels = self._features_and_labels(X, y, first)
            if not first:
                features = np.concatenate([self.features_, features])
                labels = np.concatenate([self.classes_[self.labels_], labels])
                known = self.classes_
                announced = known if announced is None else np.concatenate([known, announced])
            self._adapt(features, labels, announced)
            self._warn_about_repeated(X if first else None)
            return self

    def set_class_prior(self, class_prior: ClassPrior) -> AnyShotClassifier:
        """Change how common the classes are; the next answers follow, without a new fit.

        Parameters
        ----------
        class_prior : {"even", "as-given"} or dict
            As the constructor's argument.

        Returns
        -------
        AnyShotClassifier
            This classifier.

        Examples
        --------
        >>> x, y = np.array([[1.0, 0], [0, 1], [0.1, 1]]), ["cat", "dog", "dog"]
        >>> clf = AnyShotClassifier(None).fit(x, y)
        >>> even = clf.predict_proba([[1.0, 1]])[0]
        >>> few_dogs = clf.set_class_prior({"cat": 0.9, "dog": 0.1}).predict_proba([[1.0, 1]])[0]
        >>> bool(few_dogs[1] < even[1])
        True
        """
        check_class_prior(class_prior)
        if is_fitted(self):
            self._class_shares(class_prior)
        self.class_prior = class_prior
        return self

    # -------------------------------------------------------------------------------------- answers
    def classify(self, X: Images) -> Predictions:
        """Probabilities and novelty of images, with one pass of the backbone.

        Parameters
        ----------
        X : sequence of images
            As in `fit`.

        Returns
        -------
        Predictions
            Labels, probabilities, unknown scores and features.
        """
        self._check_two_classes()
        return self.classify_features(self._features(X))

    def classify_features(self, features: ArrayLike) -> Predictions:
        """The same as `classify` for features of shape (n_images, n_features)."""
        self._check_two_classes()
        checked = check_features(features, self.features_.shape[1])
        scores = self._unknown_scores(checked)
        return Predictions(
            classes=self.classes_,
            probabilities=self._probabilities(checked),
            unknown_scores=scores,
            unknown=scores > self._unknown_threshold(),
            features=checked,
            support_matches=find_matches(checked, self.features_),
        )

    def predict_proba(self, X: Images) -> NDArray[np.float64]:
        """Class probabilities (n_images, n_classes); an image's row depends on no other image."""
        is_fitted(self, strict=True)
        return self._probabilities(self._features(X))

    def predict(self, X: Images) -> NDArray[Any]:
        """The most probable class of each image, shape (n_images,)."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(1)]

    def transform(self, X: Images) -> NDArray[np.float32]:
        """The backbone's features, float32 (n_images, n_features)."""
        is_fitted(self, strict=True)
        return self._features(X)

    def label_next(self, X: Images, count: int = 20) -> NDArray[np.int64]:
        """Indices of the unlabelled images to label first, the most useful first."""
        self._check_two_classes()
        return self.label_next_features(self._features(X), count)

    def label_next_features(self, features: ArrayLike, count: int = 20) -> NDArray[np.int64]:
        """The same as `label_next` for features of shape (n_images, n_features)."""
        self._check_two_classes()
        checked = check_features(features, self.features_.shape[1])
        return np.array(
            choose_images(self._under_prior(), torch.from_numpy(checked), count), np.int64
        )

    # ---------------------------------------------------------------------------------------- files
    def save(self, path: str | Path) -> None:
        """Write the classifier to one file with a digest, for example "pets.anyshot".

        It holds features, labels and weights, and only the name of the backbone. It holds no photos
        (with a backbone ``conv4:RUN``, small copies). Nothing in it is executed when it is read.
        """
        save_classifier(self, path)

    def export_onnx(self, path: str | Path) -> None:
        """Write backbone, heads and mixture as one ONNX graph, for example "pets.onnx".

        The input "images" is uint8 (n, side, side, 3); with ``backbone=None`` it is "features". The
        outputs are "probabilities" (n, n_classes), under the class prior in force, and "unknown"
        (n,). The metadata has the class names ("classes", JSON), the preparation of images and the
        threshold of unknown images. Classes without images are left out.
        """
        from anyshot.classifier.onnx_export import export_onnx

        self._check_two_classes()
        export_onnx(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: Source | None = None,
        device: str = "cpu",
        trust_code: bool = False,
    ) -> AnyShotClassifier:
        """Read a classifier that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file, or the folder that holds it.
        backbone : module or callable, optional
            Required if the saved classifier used a module or a function, which are not saved.
        device : str, default "cpu"
            Where the backbone runs.
        trust_code : bool, default False
            Whether a run that is the backbone may execute code that does not come with anyshot.

        Returns
        -------
        AnyShotClassifier
            A fitted classifier with the same answers.
        """
        return load_classifier(cls(device=device, trust_code=trust_code), path, backbone)

    save_pretrained = save
    from_pretrained = load
