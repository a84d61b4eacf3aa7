"""The image cache: nothing is attached to the tensor, and changed images are always noticed."""

from __future__ import annotations

import copy
import gc
import io
import pickle

import pytest
import torch

from anyshot.inner_loop import adapt, gradient, query_loss
from anyshot.inner_loop.engine import image_cache, torch_ops
from anyshot.inner_loop.engine.image_cache import image_patches


def support_loss(inner, engine="engine"):
    return gradient(
        inner.theta, inner.images, inner.labels, inner.weights, inner.norm, engine=engine
    )[1].item()


def test_images_can_be_pickled_copied_and_saved_after_use(make_case):
    inner = make_case([1, 2], (20, 20), head=True).inner
    adapt(inner)
    images = inner.images
    assert torch.equal(pickle.loads(pickle.dumps(images)), images)
    assert torch.equal(copy.deepcopy(images), images)
    file = io.BytesIO()
    torch.save(images, file)
    file.seek(0)
    assert torch.equal(torch.load(file), images)
    assert not vars(images)


CHANGES = {
    "in place": lambda images: images.mul_(0.5),
    "through a NumPy view": lambda images: images.numpy().__imul__(0.5),
    "through .data": lambda images: images.data.mul_(0.5),
    "one pixel": lambda images: images.numpy().__setitem__((1, 0, 3, 3), 0.9),
    "images in another order": lambda images: images.data.copy_(images.flip(0)),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_images_are_noticed(make_case, change, layout):
    inner = make_case([1, 2], (20, 20), head=True).inner
    object.__setattr__(inner, "images", inner.images.contiguous(memory_format=layout))
    before = support_loss(inner)
    change(inner.images)
    assert support_loss(inner) == pytest.approx(support_loss(inner, "autograd"), rel=1e-10)
    assert support_loss(inner) != before


def test_images_changed_after_the_forward_pass_do_not_change_the_gradient(make_case):
    case = make_case([1, 2], (20, 20), head=True)
    expected = case.gradients(query_loss(case.inner, case.images, case.labels)[0])
    loss, _ = query_loss(case.inner, case.images, case.labels)
    case.inner.images.numpy()[:] = 0
    found = case.gradients(loss)
    for name, right in expected.items():
        assert right is None or torch.equal(found[name], right), name


def test_patches_are_shared_until_the_images_change_and_freed_with_them():
    images = torch.rand(3, 3, 16, 16)
    patches = image_patches(torch_ops, images)
    assert image_patches(torch_ops, images) is patches
    images[0, 0, 0, 0] += 1
    assert image_patches(torch_ops, images) is not patches
    size = len(image_cache._cache)
    del images
    gc.collect()
    assert len(image_cache._cache) == size - 1


def test_images_with_nan_are_still_cached():
    images = torch.full((2, 3, 16, 16), torch.nan)
    assert image_patches(torch_ops, images) is image_patches(torch_ops, images)
