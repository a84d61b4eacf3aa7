"""Near-copies and series: photos of the same object count as one image.

Frames of a video and bursts resemble each other more than new photos will resemble them. An image
that is predicted by heads that saw its near-copy is no evidence about new photos. Images of a class
are therefore clustered (average linkage). Distances are relative to the median distance of images
of different classes, which are not copies. Clusters closer than a threshold are one group:

    near-copies:  STRICT            series:  STRICT + s (LOOSE − STRICT)

s is 0 in usual tasks and 1 for series. It grows with the share of pairs that are near (below NEAR)
among those that are less than FAR apart: in usual tasks the number of pairs rises steeply with the
distance, and near ones are a few percent. The images of a homogeneous class, such as close-ups of
one material, are as alike as a series, but new ones are like them. Clusters within them are not
apart, so there are no series if the mean silhouette of the images is below SEPARATED (that of an
image is 1 − mean distance in its cluster / mean distance to the next cluster of its class). This is
no proof: predictions merge near-copies only, and the expected accuracy allows for both.

This needs features of several depths. The last layer of a good backbone can be as alike for a whole
class as for a series; with it alone, only copies are grouped.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.heads.support_set import squared_distances

STRICT, LOOSE = 0.45, 0.7
COPY = 0.01  # below it, images are practically the same
NEAR, FAR = 0.55, 0.7
USUAL_SHARE, SERIES_SHARE = 0.1, 0.4  # of near pairs: s is 0 up to the first, 1 from the second
MAX_IMAGES = 2000  # images of a class that are compared; the others are groups of their own
SEPARATED = 0.2  # close-ups of materials have 0.05 to 0.2, tracks 0.25 to 0.3, bursts 0.5
SAMPLE = 500  # images of all classes that the median distance is taken from

Distances = list[tuple[Tensor, NDArray[np.float64]]]  # members of a class, distances of its pairs


def group_near_copies(
    x: Tensor, labels: Tensor, copies_only: bool = False
) -> tuple[Tensor, Tensor]:
    """The near-copies and the series [N] that images belong to.

    They are computed from normalised features [N, d] and labels [N] in 0..C−1. Groups are numbered
    by their first image; a group has one label. `copies_only`: only images that are practically the
    same form a group.

    >>> angles = torch.tensor([0.0, 0.01, 1.5, 3.0, 4.5])
    >>> x = torch.stack([angles.cos(), angles.sin()], 1)
    >>> group_near_copies(x, torch.tensor([0, 0, 0, 1, 1]))[0]
    tensor([0, 0, 1, 2, 3])
    """
    distances = _relative_distances(x.double(), labels)
    if copies_only:
        copies = _group_within(distances, len(x), COPY)
        return copies, copies
    threshold = _choose_threshold(distances)
    copies = _group_within(distances, len(x), STRICT)
    if threshold == STRICT:
        return copies, copies
    series = _group_within(distances, len(x), threshold)
    return copies, series if _mean_silhouette(distances, series) >= SEPARATED else copies


def _group_within(distances: Distances, images: int, threshold: float) -> Tensor:
    """The group of each image, for a threshold of the relative distances."""
    first = torch.arange(images)
    for members, of_pairs in distances:
        if (of_pairs <= threshold).any():
            first[members] = members[_first_of_cluster(of_pairs, threshold)]
    return first.unique(return_inverse=True)[1]


def merge_groups(features: Tensor, groups: Tensor) -> Tensor:
    """The mean features [G, d] of each group."""
    sizes = torch.bincount(groups).to(features)
    sums = features.new_zeros(len(sizes), features.shape[1]).index_add(0, groups, features)
    return sums / sizes[:, None]


def _relative_distances(x: Tensor, labels: Tensor) -> Distances:
    """Distances of the pairs of each class of two or more images (in scipy's condensed form)."""
    some = torch.arange(0, len(x), -(-len(x) // SAMPLE))
    between = squared_distances(x[some], x[some])[labels[some, None] != labels[some]]
    usual = between.sqrt().median().clamp_min(1e-6) if len(between) else x.new_ones(())
    found = []
    for c in range(int(labels.max()) + 1):
        members = (labels == c).nonzero()[:MAX_IMAGES, 0]
        if len(members) > 1:
            found.append((members, (torch.nn.functional.pdist(x[members]) / usual).numpy()))
    return found


def _choose_threshold(distances: Distances) -> float:
    """The threshold of series in a task."""
    near, far = (sum(int((d <= limit).sum()) for _, d in distances) for limit in (NEAR, FAR))
    share = near / max(far, 1)
    s = (share - USUAL_SHARE) / (SERIES_SHARE - USUAL_SHARE)
    return STRICT + min(max(s, 0.0), 1.0) * (LOOSE - STRICT)


def _mean_silhouette(distances: Distances, groups: Tensor) -> float:
    """The mean over images of groups of several, in classes of several groups; 1 if there is none.

    >>> groups = torch.tensor([0, 0, 1])
    >>> _mean_silhouette([(torch.arange(3), np.array([1.0, 4.0, 4.0]))], groups)
    0.75
    """
    from scipy.spatial.distance import squareform  # slow to import

    found = [np.ones(0)]
    for members, of_pairs in distances:
        own = groups[members].unique(return_inverse=True)[1]
        sizes = torch.bincount(own)
        if len(sizes) > 1:
            cluster = torch.nn.functional.one_hot(own).double()
            sums = torch.from_numpy(squareform(of_pairs)) @ cluster  # [n, clusters]
            inside = sums.gather(1, own[:, None])[:, 0] / (sizes[own] - 1)
            nearest = (sums / sizes).scatter(1, own[:, None], torch.inf).min(1).values
            found.append((1 - inside / nearest)[sizes[own] > 1].numpy())
    silhouettes = np.concatenate(found)
    return float(silhouettes.mean()) if len(silhouettes) else 1.0


def _first_of_cluster(of_pairs: NDArray[np.float64], threshold: float) -> Tensor:
    """For each image of a class, the first image of its cluster, as indices into the class."""
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import

    clusters = fcluster(linkage(of_pairs, "average"), threshold, "distance")
    _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    return torch.from_numpy(first[cluster])
