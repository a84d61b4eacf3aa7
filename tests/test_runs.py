import pytest
import torch

from anyshot.errors import AnyshotError
from anyshot.runs import Checkpoint, Run
from anyshot.settings import Settings, TaskSettings


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


def test_a_damaged_checkpoint_is_passed_over(tmp_path, caplog):
    made = make(tmp_path)
    for i in range(2):
        made.save_checkpoint(f"meta-{i:07d}", Checkpoint({"iteration": i}, {"x": torch.tensor([float(i)])}))
    newest = tmp_path / "checkpoints" / "meta-0000001" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:10])
    assert made.latest_checkpoint().state == {"iteration": 0}
    assert "damaged" in caplog.text
    (tmp_path / "checkpoints" / "meta-0000000" / "state.json").write_text("{")
    with pytest.raises(AnyshotError, match=r"No checkpoint .* can be read"):
        made.latest_checkpoint()


def test_a_run_that_never_began_gives_way_and_one_that_did_says_what_differs(tmp_path):
    make(tmp_path)
    other = Settings(task=TaskSettings(way=7))
    made = Run.create(tmp_path, other, (32, 32))
    assert made.settings == other
    made.log({"kind": "iteration"})
    with pytest.raises(AnyshotError, match=r"other settings \(way 7, not 5\)"):
        make(tmp_path)
