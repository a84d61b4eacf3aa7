"""Equal runs write equal files."""

from tiny_runs import tiny, train_tiny


def test_equal_runs_write_files_of_equal_bytes(tmp_path):
    for name in ("first", "second"):
        train_tiny(tiny("maml", iterations=2), tmp_path / name, tensorboard=False)
    files = sorted(path for path in (tmp_path / "first").rglob("*") if path.is_file())
    names = [path.relative_to(tmp_path / "first") for path in files]
    assert {"best.safetensors", "log.jsonl", "run.json"} < {str(name) for name in names}
    different = [name for name in names if not equal(tmp_path, name)]
    assert different == []


def equal(folder, name) -> bool:
    return (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes()
