from __future__ import annotations

import numpy as np
import pytest

from anyshot.evaluation.report.binning import ratio_bins


def test_bins_have_equal_ratios_and_hold_every_value_once():
    sizes = np.random.default_rng(0).integers(1, 500, 200)
    masks = ratio_bins(sizes, 5)
    np.testing.assert_array_equal(np.sum(masks, axis=0), 1)
    ratio = (sizes.max() / sizes.min()) ** (1 / 5)
    for mask in masks:
        assert sizes[mask].max() / sizes[mask].min() <= ratio * (1 + 1e-6)
    highest = [sizes[mask].max() for mask in masks]
    assert highest == sorted(highest)


@pytest.mark.parametrize(("sizes", "count"), [([], 0), ([7], 1), ([7, 7, 7], 1), ([1, 1000], 2)])
def test_empty_bins_are_left_out(sizes, count):
    assert len(ratio_bins(sizes, 8)) == count
