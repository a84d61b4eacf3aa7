import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from support import assert_equal, assert_kills_change_nothing, make_imageset, make_task
from tiny_runs import tiny
from tiny_runs import train_tiny as run

import anyshot
from anyshot.core.errors import AnyshotError, CodeError, RunError
from anyshot.core.settings import Settings, TaskSettings
from anyshot.data.tasks import TaskStream
from anyshot.methods import METHODS, Objective
from anyshot.runs.run import Run
from anyshot.training import meta_training
from anyshot.training.meta_training import MetaTraining, task_gradients
from anyshot.training.stages import train


def parameters(folder) -> dict[str, torch.Tensor]:
    return Run(folder).latest_checkpoint().tensors


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_its_run_can_be_loaded(method, tmp_path):
    made = run(tiny(method), tmp_path)
    start = MetaTraining(
        Run.open_or_create(tmp_path / "new", made.settings, (16, 16)), [make_imageset()]
    ).method
    trained = made.load_method()
    assert trained.name == method
    pairs = zip(start.parameters(), trained.parameters(), strict=True)
    changed = any(not torch.equal(before, after) for before, after in pairs)
    assert changed == (method != "rfs")  # nothing of RFS is meta-learned
    kinds = [record["kind"] for record in made.records()]
    assert kinds == ["iteration", "iteration", "validation", "iteration", "iteration", "validation"]
    assert made.info["version"]
    assert Settings.from_dict(made.info["settings"]) == made.settings


def test_training_lowers_the_loss(tmp_path):
    made = run(tiny("maml", iterations=30, rate=0.01, validate_every=0), tmp_path)
    losses = [r["loss"] for r in made.records("iteration")]
    assert sum(losses[-8:]) < 0.8 * sum(losses[:8])


def test_an_interrupted_run_equals_a_whole_one_for_any_number_of_workers(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(tiny(iterations=5), whole)
    settings = tiny(iterations=5)
    made = Run.open_or_create(parts, settings, (16, 16))
    first = MetaTraining(made, [make_imageset()])
    for _ in range(3):
        first.step(lambda *_: None)
        if first.finished_steps == 2:
            first.validate()
            first.save_checkpoint()  # the third step is lost
    run(settings, parts, workers=1)
    assert_equal(parameters(parts), parameters(whole))
    assert list(Run(parts).records()) == list(Run(whole).records())


def test_a_meta_batch_of_one_task_does_not_depend_on_torchs_threads(tmp_path):
    settings, before, found = (
        tiny(meta_batch=1, iterations=2, validate_every=0),
        torch.get_num_threads(),
        [],
    )
    settings = replace(settings, task=TaskSettings(way=4, shots="fixed:8", query=8))
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            run(settings, tmp_path / str(threads))
            found.append(parameters(tmp_path / str(threads)))
    finally:
        torch.set_num_threads(before)
    assert_equal(*found)


def test_a_killed_run_continues_to_the_same_bits(tmp_path):
    options = {
        "decay": "cosine",
        "augment": ("auto",),
        "validate_every": 10,
    }
    call = f"training(tiny(iterations=30, checkpoint_every=1, **{options}), run)"
    assert_kills_change_nothing(
        tmp_path,
        "from tiny_runs import train_tiny as training, tiny",
        call,
        clock="iteration",
        end=30,
    )


def test_image_sets_of_one_name_are_refused(tmp_path):
    with pytest.raises(AnyshotError, match="tiny, tiny"):
        train(tiny(), tmp_path, imagesets=[make_imageset()], ood=[make_imageset()])


def test_a_finished_run_is_left_alone(tmp_path):
    made = run(tiny("maml", iterations=1), tmp_path)
    before = {p: p.stat().st_mtime_ns for p in made.folder.rglob("*.safetensors")}
    run(tiny("maml", iterations=1), tmp_path)
    assert {p: p.stat().st_mtime_ns for p in made.folder.rglob("*.safetensors")} == before


def test_a_non_finite_gradient_is_skipped_and_counted(tmp_path, monkeypatch):
    honest, calls = meta_training.task_gradients, []

    def sometimes_nan(method, task):
        gradients, info = honest(method, task)
        calls.append(task)
        if task.seed[-1] == 2:  # of the second iteration
            gradients[1] = gradients[1] * float("nan")
        return gradients, info

    monkeypatch.setattr(meta_training, "task_gradients", sometimes_nan)
    made = run(tiny("maml", iterations=3), tmp_path)
    assert [r["skipped"] for r in made.records("iteration")] == [0, 1, 1]
    assert all(t.isfinite().all() for t in parameters(tmp_path).values())


def test_a_hundred_skipped_steps_in_a_row_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(meta_training, "task_gradients", lambda m, t: (
        [torch.zeros_like(p) for p in m.parameters()],
        {"loss": float("inf"), "penalty": 0.0, "kl": 0.0, "accuracy": 0.0},
    ))  # fmt: skip
    with pytest.raises(
        AnyshotError, match=r"100 steps in a row .* at iteration 100; start a new run"
    ):
        run(tiny("maml", iterations=200, validate_every=0), tmp_path)


def test_the_best_parameters_are_saved_and_patience_ends_the_run(tmp_path, monkeypatch):
    accuracies = iter([0.5, 0.9, 0.7, 0.6, 0.95])

    def fake(method, stream, tasks, **_):
        return SimpleNamespace(accuracy=next(accuracies))

    monkeypatch.setattr(meta_training, "evaluate", fake)
    made = run(
        tiny("maml", iterations=5, validate_every=1, patience=2, checkpoint_every=1), tmp_path
    )
    assert made.best().state == {"iteration": 2, "selection": 0.9, "by": "id+ood"}
    assert made.latest_checkpoint().state["iteration"] == 4


def test_the_selection_score_includes_ood_accuracy_by_default(tmp_path):
    other = make_imageset(name="other")
    for select in ("id+ood", "id"):
        settings = tiny("maml", iterations=2, select=select)
        made = train(settings, tmp_path / select, imagesets=[make_imageset()], ood=[other])
        (record,) = made.records("validation")
        expected = record["tiny"] + (record["other"] if select == "id+ood" else 0)
        assert record["selection"] == pytest.approx(expected)
        assert ("other" in record) == (select == "id+ood")


def test_training_tasks_are_augmented_and_validation_tasks_are_not(tmp_path):
    made = MetaTraining(
        Run.open_or_create(tmp_path, tiny(augment=("auto",)), (16, 16)), [make_imageset()]
    )
    assert made.stream.augment == ("auto",)
    assert not any(stream.augment for stream in made.validation.values())


def test_validation_uses_the_chosen_prediction(tmp_path, monkeypatch):
    honest, predictions = meta_training.evaluate, []

    def record(*arguments, prediction, **options):
        predictions.append(prediction)
        return honest(*arguments, prediction=prediction, **options)

    monkeypatch.setattr(meta_training, "evaluate", record)
    run(tiny(iterations=1, validate_by="mc"), tmp_path / "mc")
    run(tiny(iterations=1), tmp_path / "naive")
    assert predictions == ["mc", "naive"]


def test_small_classes_are_reported_before_training(tmp_path, caplog):
    settings = tiny("maml", iterations=1, validate_every=0, validation_tasks=1)
    run(settings, tmp_path / "fits")
    assert "too small" not in caplog.text
    run(replace(settings, task=TaskSettings(way=2, shots="fixed:28", query=3)), tmp_path / "greedy")
    said = [message for message in caplog.messages if "too small for fixed:28" in message]
    assert [message.split(" classes")[0] for message in said] == [
        "tiny: 4 of 4 train",
        "tiny: 4 of 4 validation",
    ]


def test_images_of_different_sizes_are_refused(tmp_path):
    with pytest.raises(AnyshotError, match=r"16, 16.*32, 32"):
        train(
            tiny(), tmp_path, imagesets=[make_imageset(), make_imageset(32, name="large")], ood=[]
        )


def test_a_folder_with_another_run_is_refused(tmp_path):
    run(tiny("maml", iterations=1), tmp_path)
    with pytest.raises(AnyshotError, match="other settings"):
        run(tiny("maml", iterations=1, meta_batch=3), tmp_path)


def test_an_extended_run_equals_a_run_of_that_length(tmp_path):
    run(tiny("maml", iterations=2), tmp_path / "longer")
    made = run(tiny("maml", iterations=4), tmp_path / "longer")
    run(tiny("maml", iterations=4), tmp_path / "long")
    assert made.settings.train.iterations == 4
    assert_equal(parameters(tmp_path / "longer"), parameters(tmp_path / "long"))
    assert list(made.records()) == list(Run(tmp_path / "long").records())


def test_a_run_that_fails_before_its_first_step_leaves_nothing_behind(
    tmp_path,
):
    far = replace(tiny("maml"), task=TaskSettings(way=9))
    with pytest.raises(AnyshotError, match="needs 9"):
        run(far, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert run(tiny("maml"), tmp_path / "run").settings.task.way == 2


def test_a_run_killed_before_its_first_iteration_continues(tmp_path, monkeypatch):
    class Killed(BaseException): ...

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MetaTraining, "step", kill)
        run(tiny("maml"), tmp_path / "run")
    assert Run.find_started(tmp_path / "run").latest_checkpoint().state["iteration"] == 0
    run(tiny("maml"), tmp_path / "run")
    run(tiny("maml"), tmp_path / "whole")
    assert_equal(parameters(tmp_path / "run"), parameters(tmp_path / "whole"))


def test_the_callback_gets_every_record_of_the_log(tmp_path):
    heard = []
    made = run(tiny("maml"), tmp_path, callback=heard.append)
    assert heard == list(made.records())


@pytest.mark.parametrize("wanted", [True, False])
def test_tensorboard_files_can_be_switched_on_and_off(tmp_path, wanted):
    pytest.importorskip("tensorboard")
    run(tiny("maml", iterations=1), tmp_path, tensorboard=wanted)
    assert (tmp_path / "tensorboard").exists() == wanted


def test_a_missing_tensorboard_is_an_error_only_if_requested(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(AnyshotError, match="TensorBoard is not installed"):
        run(tiny("maml", iterations=1), tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()
    run(tiny("maml", iterations=1), tmp_path / "run")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_gradient_mode_of_the_caller_changes_nothing(tmp_path, mode):
    run(tiny(iterations=2), tmp_path / "plain")
    with mode():
        run(tiny(iterations=2), tmp_path / "within")
    assert_equal(parameters(tmp_path / "within"), parameters(tmp_path / "plain"))


def test_the_default_dtype_changes_no_number(tmp_path, restore_default_type):
    found = {}
    for name in ("maml", "mt-net", "abml", "taml"):
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            made = run(tiny(name, iterations=2), tmp_path / f"{name} {dtype}")
            task = TaskStream(make_imageset(), "test", made.settings.task).task(0)
            found[dtype] = {
                **parameters(made.folder),
                "prediction": made.load_method().predict(task),
            }
        assert_equal(found[torch.float32], found[torch.float64])


@pytest.fixture
def restore_default_type():
    yield
    torch.set_default_dtype(torch.float32)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    run(tiny("meta-sgd", iterations=1), tmp_path / "meta-sgd")
    made = run(tiny("protonet", iterations=1), tmp_path / "protonet")
    for name in ("best.safetensors", "checkpoints/meta-0000001.safetensors"):
        (tmp_path / "meta-sgd" / name).replace(made.folder / name)
    with pytest.raises(RunError, match=r"protonet/best\.safetensors.*another run"):
        made.load_method()
    with pytest.raises(RunError, match=r"meta-0000001\.safetensors.*another run"):
        run(tiny("protonet", iterations=1), made.folder)


def test_each_of_several_image_sets_is_validated(tmp_path):
    settings = replace(tiny("maml", iterations=2), images=("a", "b"), mixing="turn")
    made = train(
        settings, tmp_path, imagesets=[make_imageset(name="a"), make_imageset(name="b")], ood=[]
    )
    (record,) = made.records("validation")
    assert record["selection"] == pytest.approx((record["a"] + record["b"]) / 2)


def test_a_run_consists_of_safetensors_and_json_files(tmp_path):
    run(tiny("maml", iterations=1), tmp_path)
    files = [p for p in tmp_path.rglob("*") if p.is_file() and "tensorboard" not in p.parts]
    assert {p.suffix for p in files} == {".json", ".jsonl", ".safetensors"}
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "tensorboard") == [
        "best.safetensors", "checkpoints", "log.jsonl", "run.json",
    ]  # fmt: skip
    for path in files:
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".safetensors":
            assert load_file(path)


@pytest.mark.parametrize("wrong", [torch.ones(()), Objective(torch.ones(2), 0.0, 0.5)])
def test_an_objective_of_another_form_is_refused(wrong):
    method = anyshot.create_method(tiny("maml").method)
    method.objective = lambda task, noise: wrong
    with pytest.raises(CodeError, match="expected anyshot"):
        task_gradients(method, make_task())
