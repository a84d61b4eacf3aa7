"""The backbone of quality "best", and how it is chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from support import colours
from torch import nn
from typer.testing import CliRunner

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import Backbone, best_quality, block_widths
from anyshot.classifier.backbones import backbone as backbones
from anyshot.classifier.backbones.best_quality import BestQuality, enlarge_centre
from anyshot.cli.main import app
from anyshot.core.errors import AnyshotError


class Largest(nn.Module):
    """The largest value of each colour."""

    def forward(self, x):
        return x.amax((2, 3))


def test_features_are_the_mean_over_the_image_and_its_centre():
    x = torch.zeros(2, 3, 18, 18)
    x[0, :, 0, 0] = 4.0  # in a corner, which the centre does not have
    x[1] = 2.0
    expected = torch.tensor([[2.0] * 3, [2.0] * 3])
    torch.testing.assert_close(BestQuality(Largest())(x), expected)


def test_the_centre_is_enlarged_to_the_whole_image():
    x = torch.zeros(1, 3, 18, 18)
    x[:, :, 2:16, 2:16] = 1.0  # a ninth of 18 pixels on each side is left out
    torch.testing.assert_close(enlarge_centre(x), torch.ones_like(x))


def test_best_quality_replaces_the_default_backbone_only(monkeypatch):
    quick = Backbone("efficientnet-best", 16, "", colours)
    monkeypatch.setattr(backbones, "_open_best", lambda side, device: quick)
    images = [np.full((9, 9, 3), v, np.uint8) for v in (0, 40, 200, 240)]
    fitted = AnyShotClassifier(quality="best").fit(images, [0, 0, 1, 1])
    assert fitted.backbone_ is quick
    assert fitted.get_params()["backbone"] == "efficientnet-lite0"
    with pytest.raises(AnyshotError, match="conv4:cifar-fs"):
        AnyShotClassifier("conv4:cifar-fs", quality="best").fit(images, [0, 0, 1, 1])
    with pytest.raises(AnyshotError, match="great"):
        AnyShotClassifier(quality="great").fit(images, [0, 0, 1, 1])


def test_a_saved_classifier_keeps_the_backbone_of_its_quality(monkeypatch, tmp_path):
    quick = Backbone("efficientnet-best", 16, "", colours)
    monkeypatch.setattr(backbones, "_open_best", lambda side, device: quick)
    images = [np.full((9, 9, 3), v, np.uint8) for v in (0, 40, 200, 240)]
    fitted = AnyShotClassifier(quality="best").fit(images, [0, 0, 1, 1])
    fitted.save(tmp_path / "a.anyshot")
    again = AnyShotClassifier.load(tmp_path / "a.anyshot")
    np.testing.assert_array_equal(again.predict_proba(images), fitted.predict_proba(images))
    again.partial_fit(images[:1], [0])
    assert again.backbone_ is quick


def test_commands_take_the_quality(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    quick = Backbone("efficientnet-best", 16, "", colours)
    monkeypatch.setattr(backbones, "_open_best", lambda side, device: quick)
    for name, value in (("dark", 0), ("bright", 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            pixels = np.full((20, 20, 3), value + 9 * i, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    folder = str(tmp_path / "photos")
    how = ["--support", folder, "--query", folder, "--quality", "best"]
    done = CliRunner().invoke(app, ["classify", *how], catch_exceptions=False)
    assert done.exit_code == 0


def test_the_blocks_are_those_of_the_network():
    width = sum(best_quality.block_widths())
    assert block_widths("efficientnet-best", width) == block_widths("efficientnet-lite2", width)
    assert len(block_widths("efficientnet-best", width)) == 4
    assert block_widths("efficientnet-best", 7) == ()
