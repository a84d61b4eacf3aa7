from __future__ import annotations

from dataclasses import replace

import pytest

from anyshot.core.errors import AnyshotError, RunError, SettingsError
from anyshot.core.settings import PretrainSettings, Settings, TrainSettings
from anyshot.experiments import seeds

SETTINGS = Settings(("glyphs",), train=TrainSettings(seed=5))


def test_runs_differ_in_their_seed_only(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(seeds, "train", lambda *call, **options: trained.append((*call, options)))
    monkeypatch.setattr(seeds, "Run", FakeRun)
    runs = seeds.train_seeds(SETTINGS, tmp_path, 3, workers=2)
    folders = [tmp_path / f"seed-{seed}" for seed in (5, 6, 7)]
    assert [run.folder for run in runs] == [str(folder) for folder in folders]
    assert [folder for _, folder, _ in trained] == folders
    assert [settings.train.seed for settings, _, _ in trained] == [5, 6, 7]
    assert {settings.images for settings, _, _ in trained} == {("glyphs",)}
    assert [options for _, _, options in trained] == [{"workers": 2}] * 3


class FakeRun:
    """A run that is half done if its folder is that of seed 6."""

    def __init__(self, folder, trust_code):
        assert trust_code
        self.folder = folder

    @staticmethod
    def find_started(folder):
        return FakeRun(folder, True) if folder.name == "seed-6" else None

    def progress(self) -> float:
        return 0.5


def test_the_share_done_is_the_progress_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(seeds, "Run", FakeRun)
    jobs = [seeds.SeedRun(SETTINGS, tmp_path / f"seed-{seed}", {}) for seed in (5, 6)]
    assert [seeds._share_done(job) for job in jobs] == [0.0, 0.5]


def test_the_pretraining_of_each_run_has_its_seed(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(seeds, "train", lambda settings, folder: trained.append(settings))
    monkeypatch.setattr(seeds, "Run", FakeRun)
    seeds.train_seeds(replace(SETTINGS, pretrain=PretrainSettings()), tmp_path, 2)
    assert [settings.pretrain.seed for settings in trained] == [5, 6]


def test_failed_runs_are_named(tmp_path, monkeypatch):
    def fail(settings, folder):
        if settings.train.seed == 6:
            raise AnyshotError("The loss is NaN.")

    monkeypatch.setattr(seeds, "train", fail)
    with pytest.raises(RunError, match=r"1 of 2 runs failed \(\S+seed-6\)"):
        seeds.train_seeds(SETTINGS, tmp_path, 2)


def test_torchrun_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(seeds, "launched_by_torchrun", lambda: True)
    with pytest.raises(SettingsError, match="--seeds"):
        seeds.train_seeds(SETTINGS, tmp_path, 2)
