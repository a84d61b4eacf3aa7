import pytest
import torch

from anyshot.errors import AnyshotError
from anyshot.runs import Checkpoint, Run
from anyshot.settings import Settings


def make(folder) -> Run:
    return Run.create(folder, Settings(), (32, 32), "anyshot train")


def test_a_run_says_what_it_is(tmp_path):
    made = make(tmp_path / "run")
    assert made.info["command"] == "anyshot train"
    assert Run(tmp_path / "run").settings == Settings()
    assert Run(tmp_path / "run").image_size == (32, 32)


def test_only_the_newest_checkpoints_stay(tmp_path):
    made = make(tmp_path)
    for i in range(5):
        made.save_checkpoint(f"meta-{i:07d}", Checkpoint({"iteration": i}, {"x": torch.tensor([float(i)])}))
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["meta-0000003", "meta-0000004"]
    newest = made.latest_checkpoint()
    assert newest.state == {"iteration": 4}
    assert newest.tensors["x"].item() == 4


def test_a_half_written_checkpoint_is_not_seen(tmp_path):
    made = make(tmp_path)
    (tmp_path / "checkpoints" / ".meta-0000009.abc.tmp").mkdir(parents=True)
    assert made.latest_checkpoint() is None


def test_a_half_line_in_the_log_is_passed_over(tmp_path):
    made = make(tmp_path)
    made.log({"kind": "iteration", "loss": float("nan")})
    with open(made.log_path, "a") as file:
        file.write('{"kind": "itera')
    assert list(made.records()) == [{"kind": "iteration", "loss": None}]
    made.rewind_log(1)
    assert made.log_lines() == 1


def test_a_run_without_chosen_parameters_says_so(tmp_path):
    with pytest.raises(AnyshotError, match="no chosen parameters yet"):
        make(tmp_path).best()
