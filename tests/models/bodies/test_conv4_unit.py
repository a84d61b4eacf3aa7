"""Conv4 with features of one length, centred or not."""

import pytest
import torch
import torch.nn.functional as F
from support import make_imageset, make_method

import anyshot
from anyshot.core.random import torch_rng
from anyshot.core.settings import TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.models.network import embed


@pytest.mark.parametrize("name", ["conv4-unit", "conv4-centred"])
@pytest.mark.parametrize("references", [None, 3])
def test_features_are_those_of_conv4_at_length_root_width(name, references):
    body, conv4 = (anyshot.create_body(one, (32, 32), channels=4) for one in (name, "conv4"))
    theta = body.init_parameters(torch_rng(0), "he")
    images = torch.rand(5, 3, 32, 32, generator=torch_rng(1))
    reference = None if references is None else images[:references]
    features = embed(body.features, theta, body.norm(), images, False, reference)
    plain = embed(conv4.features, theta, body.norm(), images, False, reference)
    if name == "conv4-centred":
        plain = plain - plain[:references].mean(0)
    assert body.width == conv4.width
    torch.testing.assert_close(features.norm(dim=1), torch.full((5,), body.width**0.5))
    torch.testing.assert_close(F.cosine_similarity(features, plain), torch.ones(5))


def test_with_stored_statistics_the_mean_is_that_of_training_images():
    method = make_method(
        "protonet", body="conv4-centred", stored_statistics=True, transductive=False, start="he"
    )
    plain = make_method("protonet", stored_statistics=True, transductive=False, start="he")
    stream = TaskStream(make_imageset(), "train", TaskSettings(way=4, shots="fixed:5"))
    for one in (method, plain):
        one.before_validation(stream)
    task = stream.task(0)
    images = method.to_input(task.query)
    features = method.embed(images, norm=method.test_norm(method.norm))
    assert torch.allclose(
        method.embed(images[:1], norm=method.test_norm(method.norm)), features[:1]
    )
    raw = plain.embed(images, norm=plain.test_norm(plain.norm))
    mean = method.stored_feature_mean
    assert mean.abs().max() > 0
    torch.testing.assert_close(
        features, F.normalize(raw - mean) * mean.numel() ** 0.5, rtol=1e-4, atol=1e-5
    )
    tasks = [stream.task(index) for index in range(8)]
    measured = [plain.to_input(part) for task in tasks for part in (task.support, task.query)]
    expected = plain.embed(torch.cat(measured)[:512], norm=plain.norm).mean(0)
    torch.testing.assert_close(mean, expected, rtol=1e-4, atol=1e-5)
