from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from support import make_imageset, make_method
from tiny_runs import tiny
from tiny_runs import tiny_pretraining as tiny_warm

from anyshot.core.errors import RunError
from anyshot.core.settings import MethodSettings
from anyshot.methods import METHODS, create_method
from anyshot.runs.image_record import SetRecord
from anyshot.runs.initial_body import InitialBody, open_initial_body
from anyshot.runs.run import Run
from anyshot.training.stages import pretrain, train


@pytest.fixture(scope="module")
def warmed(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("warm")
    return pretrain(tiny_warm(epochs=1), folder, imagesets=[make_imageset(name="before")], ood=[])


def body(tensors) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tensors.items() if name.startswith(("theta.", "shift."))}


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_starts_from_the_body_of_a_run_or_file(name, warmed, tmp_path):
    expected = body(warmed.best().tensors)
    save_file(expected, tmp_path / "body.safetensors")
    for source in (warmed.folder, tmp_path / "body.safetensors"):
        method = create_method(MethodSettings(name=name), (16, 16))
        others = {
            key: value.clone() for key, value in method.state_dict().items() if key not in expected
        }
        open_initial_body(str(source)).load_into(method)
        state = method.state_dict()
        assert same(body(state), expected)
        assert same({key: state[key] for key in others}, others)


def test_pretrained_weights_are_a_body_by_their_name():
    origin = open_initial_body("glyphs")
    assert same(origin.tensors, body(Run("glyphs").best().tensors))
    assert [record.name for record in origin.sets] == ["glyphs"]


def test_run_records_its_initial_body(warmed, tmp_path):
    settings = tiny(rate=0.0, iterations=1, body_from=str(warmed.folder))
    made = train(settings, tmp_path, imagesets=[make_imageset()], ood=[])
    assert same(body(made.best().tensors), body(warmed.best().tensors))
    assert made.info["body"] == open_initial_body(str(warmed.folder)).record()
    assert [record.name for record in made.sets] == ["tiny", "before"]  # which tests must know of
    train(
        settings, tmp_path, imagesets=[make_imageset()], ood=[]
    )  # goes on, though there is nothing left to do


def test_run_must_not_validate_on_training_classes_of_its_body(warmed, tmp_path):
    turned = replace(make_imageset(), splits={"train": (4, 5, 6, 7), "validation": (0, 1, 2, 3)})
    with pytest.raises(RunError, match=r"4 classes of tiny .* \(class 0, class 1, class 2 …\)"):
        train(tiny(body_from=str(warmed.folder)), tmp_path / "run", imagesets=[turned], ood=[])


@pytest.mark.parametrize("split", ["validation", "test"])
def test_training_sets_of_the_body_are_recorded(split):
    learned = SetRecord.from_images(make_imageset(name="before"), "before", None)
    origin = InitialBody(
        "runs/warm", {}, "0" * 64, (learned, replace(learned, learned=False, name="checked"))
    )
    assert origin.record() == {"source": "runs/warm", "sha256": "0" * 64}
    own = SetRecord.from_images(make_imageset(), "tiny", None)
    origin.check_leakage([own])
    assert origin.merge_records([own]) == (own, learned)  # not what was only validated on
    renamed = replace(own, name="before")
    assert origin.merge_records([renamed]) == (renamed,)
    turned = replace(make_imageset(), splits={"train": (4, 5, 6, 7), split: (0, 1, 2, 3)})
    with pytest.raises(RunError, match=r"4 classes of tiny"):
        origin.check_leakage([SetRecord.from_images(turned, "tiny", None)])


def test_body_of_another_shape_is_refused(warmed):
    with pytest.raises(RunError, match=r"shift\.0, shift\.1"):
        open_initial_body(str(warmed.folder)).load_into(make_method("maml"))  # 4 channels


@pytest.mark.parametrize("content", [None, b"", b"not tensors"])
def test_file_without_a_body_is_refused(content, tmp_path):
    path = tmp_path / "body.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RunError, match="no body in"):
        open_initial_body(str(path))


def test_unfinished_pretraining_has_no_body(tmp_path):
    Run.open_or_create(tmp_path, tiny_warm(), (16, 16))
    with pytest.raises(RunError, match=str(tmp_path)):
        open_initial_body(str(tmp_path))
