"""Random numbers are a function of a seed and names."""

import torch

from anyshot.core.random import numpy_rng, torch_rng


def test_numbers_of_a_seed_and_names_never_change():
    """Published results name their tasks by seed, split and index."""
    assert numpy_rng(7, "test", 3).integers(0, 1000, 4).tolist() == [438, 831, 415, 834]
    assert numpy_rng(7, "test", 4).integers(0, 1000, 4).tolist() == [749, 813, 941, 685]
    drawn = torch.randint(0, 1000, (4,), generator=torch_rng(7, "test", 3))
    assert drawn.tolist() == [435, 464, 277, 64]


def test_seeds_with_different_names_differ():
    names = ("a", "b", "start", 1, 2)
    draws = {torch.rand(1, generator=torch_rng(0, name)).item() for name in names}
    assert len(draws) == 5


def test_generators_leave_the_global_ones_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=torch_rng(0))
    assert torch.equal(torch.get_rng_state(), before)
