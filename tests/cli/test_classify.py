"""The commands for folders of photos, in process and with a quick backbone."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import wide_colours
from typer.testing import CliRunner

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import backbone as backbones
from anyshot.classifier.backbones import feature_cache
from anyshot.cli.main import app
from anyshot.core.errors import AnyshotError, ClassifierError
from anyshot.runs import pretrained
from anyshot.runs.run import Run


@pytest.fixture(autouse=True)
def quick_backbone(monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    quick = backbones.Backbone("quick", 16, "quick", wide_colours)
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for part, n in (("train", 4), ("test", 3)):
        for channel, name in enumerate(("red", "green & blue")):
            (root / part / name).mkdir(parents=True)
            for i in range(n):
                x = rng.integers(0, 120, (20, 24, 3), np.uint8)
                x[..., channel] += np.uint8(110)
                Image.fromarray(x).save(root / part / name / f"{i}.png")
    (root / "test" / "red" / "notes.txt").write_text("not a photo")
    return root


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_classify_prints_answers_and_writes_a_table_and_a_page(folders, tmp_path, caplog):
    caplog.set_level("INFO")
    done = run("classify", "--support", folders / "train", "--query", folders / "test",
               "--csv", tmp_path / "out.csv", "--html", tmp_path / "out.html")  # fmt: skip
    assert done.exit_code == 0
    assert "notes.txt (not an image)" in caplog.text
    assert "Expected accuracy on new photos" in done.stdout
    assert f"{tmp_path / 'out.csv'} and {tmp_path / 'out.html'}" in caplog.text
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 6
    for row in rows:
        assert row["class"] in row["path"]
        assert float(row["p(red)"]) + float(row["p(green & blue)"]) == pytest.approx(1, abs=1e-5)
    page = (tmp_path / "out.html").read_text()
    assert page.count("<figure") == 6
    assert ("less reliable" in page) == ("less reliable" in done.stdout)
    assert "green &amp; blue" in page
    assert "green & blue" not in page
    assert "notes.txt: not an image" in page


def test_labels_that_look_wrong_are_named_by_their_file(folders, tmp_path):
    shutil.copytree(folders / "train", tmp_path / "train")
    moved = tmp_path / "train" / "red" / "3.png"
    moved.replace(tmp_path / "train" / "green & blue" / "moved.png")
    done = run("classify", "--support", tmp_path / "train", "--query", folders / "test")
    line = next(line for line in done.stdout.split("Labels that look wrong:")[1:])
    assert f"{tmp_path / 'train' / 'green & blue' / 'moved.png'} (perhaps red)" in line


def test_many_photos_unlike_all_classes_are_a_warning(folders, tmp_path, caplog):
    for i in range(24):
        Image.new("RGB", (20, 20), (0, 0, 10 * i)).save(tmp_path / f"{i}.png")
    query = ("classify", "--support", folders / "train", "--query", tmp_path)
    run(*query)
    flagged = re.search(r"(\d+) of 24 new photos look unlike", caplog.text)
    assert flagged
    assert int(flagged[1]) > 4
    caplog.clear()
    run(*query, "--unknown-threshold", 0.3)  # chosen, so the number says nothing
    assert "look unlike" not in caplog.text
    run("classify", "--support", folders / "train", "--query", folders / "test")
    assert "look unlike" not in caplog.text


def test_a_single_file_can_be_classified(folders):
    done = run(
        "classify", "--support", folders / "train", "--query", folders / "test" / "red" / "0.png"
    )
    assert "0.png" in done.stdout


def test_evaluate_counts_every_photo_once(folders, tmp_path):
    done = run("evaluate", "--support", folders / "train", "--test", folders / "test",
               "--json", tmp_path / "out.json", "--png", tmp_path / "out.png",
               "--html", tmp_path / "out.html")  # fmt: skip
    assert done.exit_code == 0
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    counts = np.array(results["confusion"])
    assert counts.sum(1).tolist() == [3, 3]
    assert results["summary"]["accuracy"] == pytest.approx(np.trace(counts) / 6)
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size[0] > 100
    page = (tmp_path / "out.html").read_text()
    assert page.count("<figure") == 6
    assert page.count('href="#cell-') == page.count('id="cell-') == (counts > 0).sum()


def test_names_can_have_any_characters(folders, tmp_path):
    names, odd = ("[red]", "$x_{$"), os.fsdecode(b"[/b]/caf\xe9.png")
    for channel, name in enumerate(names):
        (tmp_path / "odd" / name / odd).parent.mkdir(parents=True)
        for i in range(3):
            pixels = np.full((20, 20, 3), 10 * i, np.uint8)
            pixels[..., channel] += np.uint8(110)
            Image.fromarray(pixels).save(tmp_path / "odd" / name / (f"{i}.png" if i else odd))
    files = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "html", "png", "json")}
    done = run("classify", "--support", tmp_path / "odd", "--query", tmp_path / "odd",
               "--csv", files["csv"], "--html", files["html"])  # fmt: skip
    assert all(name in done.stdout for name in (*names, r"[/b]/caf\udce9.png"))
    assert r"[/b]/caf\udce9.png" in files["csv"].read_text()
    assert r"caf\udce9.png" in files["html"].read_text()
    done = run("evaluate", "--support", tmp_path / "odd", "--test", tmp_path / "odd",
               "--html", files["html"], "--png", files["png"], "--json", files["json"])  # fmt: skip
    assert all(name in done.stdout for name in names)


@pytest.mark.parametrize(
    ("command", "folder_option", "option"),
    [("classify", "--query", "--csv"), ("classify", "--query", "--html"), *(
        ("evaluate", "--test", option) for option in ("--json", "--png", "--html"))],
)  # fmt: skip
def test_unwritable_files_are_an_error_before_the_work(
    folders, monkeypatch, command, folder_option, option
):
    monkeypatch.setattr(
        backbones, "_open_lite", lambda size, side, device: pytest.fail("the work begins")
    )
    with pytest.raises(AnyshotError, match="Cannot write"):
        run(command, "--support", folders / "train", folder_option, folders / "test",
            option, "/dev/null/out.png")  # fmt: skip


@pytest.fixture
def shipped_run(trained, tmp_path, monkeypatch):
    """A trained method as if it had come with the package."""
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "photos-lite0").symlink_to(pretrained.HOME / "photos-lite0")
    monkeypatch.setattr(pretrained, "HOME", tmp_path / "shipped")
    Run(trained["taml"]).export(tmp_path / "shipped" / "tiny-taml")


@pytest.mark.usefixtures("shipped_run")
@pytest.mark.parametrize(
    "options",
    [
        "--backbone RUN",
        "--backbone conv4:RUN",
        "--weights RUN",
        "--backbone conv4:tiny-taml",
        "--weights tiny-taml",
    ],
)
def test_a_run_can_be_the_backbone_or_the_weights(folders, trained, tmp_path, options):
    words = options.replace("RUN", str(trained["taml"])).split()
    run("classify", "--support", folders / "train", "--query", folders / "test",
        "--csv", tmp_path / "out.csv", *words)  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    known = sorted((folders / "train").glob("*/*.png"))
    classifier = AnyShotClassifier(trained["taml"]).fit(known, [path.parent.name for path in known])
    expected = classifier.predict_proba([row["path"] for row in rows])[:, 1]
    np.testing.assert_allclose([float(row["p(red)"]) for row in rows], expected, atol=1e-5)


def test_a_run_excludes_another_backbone_or_side(folders, trained):
    arguments = ("label", "--support", folders / "train", "--pool", folders / "test",
                 "--weights", trained["taml"])  # fmt: skip
    with pytest.raises(AnyshotError, match="efficientnet-lite1"):
        run(*arguments, "--backbone", "efficientnet-lite1")
    with pytest.raises(AnyshotError, match="32 x 32, not 64 x 64"):
        run(*arguments, "--side", 64)


def test_label_prints_file_names_without_control_characters(folders, tmp_path):
    pool = tmp_path / "pool"
    pool.mkdir()
    shutil.copy(folders / "test" / "red" / "0.png", pool / "evil\x1b[31m\n.png")
    done = run("label", "--support", folders / "train", "--pool", pool, "--count", 1)
    assert done.stdout == f"{pool}/evil\\x1b[31m\\n.png\n"


def test_csv_cells_of_classify_cannot_be_formulas(folders, tmp_path):
    shutil.copytree(folders / "train" / "red", tmp_path / "train" / "=1+1")
    shutil.copytree(folders / "train" / "green & blue", tmp_path / "train" / "oak")
    done = run("classify", "--support", tmp_path / "train", "--query", tmp_path / "train",
               "--csv", tmp_path / "out.csv")  # fmt: skip
    assert done.exit_code == 0
    classes = {
        row["class"] for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    }
    assert classes == {"'=1+1", "oak"}


def test_label_prints_photos_of_the_pool(folders):
    done = run("label", "--support", folders / "train", "--pool", folders / "test", "--count", 2)
    lines = done.stdout.strip().splitlines()
    assert len(set(lines)) == 2
    assert all(line.endswith(".png") for line in lines)


@pytest.mark.parametrize(
    ("support", "query", "value"),
    [
        ("nowhere", "test", "nowhere"),
        ("train", "nowhere", "nowhere"),
        ("test/red", "test", "CLASS"),
    ],
)
def test_missing_folders_are_named(folders, support, query, value):
    with pytest.raises(ClassifierError, match=value):
        run("classify", "--support", folders / support, "--query", folders / query)


def test_a_folder_above_the_class_folders_is_refused(folders, tmp_path):
    with pytest.raises(ClassifierError, match="train"):  # train and test
        run("classify", "--support", folders, "--query", folders / "test")
    (tmp_path / "high" / "query").mkdir(parents=True)
    shutil.copytree(folders / "train", tmp_path / "high" / "train")
    shutil.copy(folders / "test" / "red" / "0.png", tmp_path / "high" / "query")
    with pytest.raises(ClassifierError, match=str(tmp_path / "high" / "train")):
        run("classify", "--support", tmp_path / "high", "--query", folders / "test")


def test_empty_class_folders_and_broken_links_are_named(folders, tmp_path, caplog):
    shutil.copytree(folders / "train", tmp_path / "train")
    (tmp_path / "train" / "empty").mkdir()
    (tmp_path / "train" / "notes").mkdir()
    (tmp_path / "train" / "notes" / "a.txt").write_text("no photo")
    (tmp_path / "train" / "red" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    shutil.copytree(folders / "test", tmp_path / "query")
    (tmp_path / "query" / "lost.png").symlink_to(tmp_path / "nowhere.png")
    run("classify", "--support", tmp_path / "train", "--query", tmp_path / "query")
    messages = "\n".join(r.getMessage() for r in caplog.records)
    for name in ("empty", "notes", "red/gone.png", "lost.png"):
        assert f"skipped {name} (" in messages


def test_a_png_file_has_the_name_of_one(folders, tmp_path):
    with pytest.raises(AnyshotError, match=r"plot\.gif.*\.png"):
        run("evaluate", "--support", folders / "train", "--test", folders / "test",
            "--png", tmp_path / "plot.gif")  # fmt: skip


def test_files_that_are_skipped_for_the_same_reason_are_named_in_one_line(folders, caplog):
    files = [folders / "test" / "red" / f"page {i:02d}.txt" for i in range(25)]
    for file in files:
        file.write_text("no photo")
    run("classify", "--support", folders / "train", "--query", folders / "test")
    (message,) = (m for r in caplog.records if "skipped" in (m := r.getMessage()))
    assert "(not an image)" in message
    assert "red/page 00.txt, " in message
    assert "page 24.txt" not in message
    listed = message.count("red/")
    assert f"and {len(files) + 1 - listed} more" in message  # the folder has notes.txt already
    for file in files:
        file.unlink()


def test_an_unreadable_single_photo_is_named_with_the_reason(folders):
    file = folders / "test" / "red" / "notes.txt"
    with pytest.raises(ClassifierError, match=rf"^{re.escape(str(file))} .*: not an image"):
        run("classify", "--support", folders / "train", "--query", file)


def test_query_photos_that_were_learned_from_are_named(folders, tmp_path, caplog):
    shutil.copytree(folders / "test", tmp_path / "query")
    copied = folders / "train" / "red" / "1.png"
    shutil.copy(copied, tmp_path / "query" / "again.png")
    run("classify", "--support", folders / "train", "--query", tmp_path / "query")
    (message,) = (r.getMessage() for r in caplog.records if "again.png" in r.getMessage())
    assert f"{tmp_path / 'query' / 'again.png'} is {copied}" in message
    caplog.clear()
    run("classify", "--support", folders / "train", "--query", folders / "test")
    assert not [r for r in caplog.records if "support photos" in r.getMessage()]


def test_evaluate_reports_the_accuracy_without_repeated_photos(folders, tmp_path, caplog):
    shutil.copytree(folders / "test", tmp_path / "test")
    for i in range(3):  # support photos of red as test photos of the other class: all wrong
        copied = tmp_path / "test" / "green & blue" / f"copy{i}.png"
        shutil.copy(folders / "train" / "red" / f"{i}.png", copied)
    done = run("evaluate", "--support", folders / "train", "--test", tmp_path / "test",
               "--json", tmp_path / "out.json")  # fmt: skip
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [Path(path).name for path in results["repeated"]] == [f"copy{i}.png" for i in range(3)]
    assert results["summary"]["accuracy"] == pytest.approx(6 / 9)
    assert results["summary_without_repeated"]["accuracy"] == 1
    assert "without the 3 photos" in done.stdout
    assert "100.0%" in done.stdout
    assert [r for r in caplog.records if "copy0.png" in r.getMessage()]


def test_the_confusion_matrix_has_true_classes_in_rows(folders, tmp_path):
    for part, name in (("red", "red"), ("red", "green & blue"), ("green & blue", "green & blue")):
        for i in range(2):
            target = tmp_path / "test" / name / f"{part[0]}{i}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folders / "test" / part / f"{i}.png", target)
    done = run("evaluate", "--support", folders / "train", "--test", tmp_path / "test",
               "--json", tmp_path / "out.json")  # fmt: skip
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert results["classes"] == ["green & blue", "red"]
    assert results["confusion"] == [[2, 2], [0, 2]]
    matrix = done.stdout[done.stdout.index("Confusion matrix") :]
    (row,) = (line for line in matrix.splitlines() if "│ green & blue" in line)
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["green & blue", "2", "2"]


def test_photos_unlike_all_classes_come_first(folders, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (20, 24, 3), np.uint8)
    shutil.copytree(folders / "test", tmp_path / "query")
    Image.fromarray(noise // 8).save(tmp_path / "query" / "noise.png")
    run("classify", "--support", folders / "train", "--query", tmp_path / "query",
        "--csv", tmp_path / "out.csv")  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    unknown = [row["unknown"] == "True" for row in rows]
    assert any(unknown)
    assert not all(unknown)
    assert unknown == sorted(unknown, reverse=True)
    scores = [float(row["unknown_score"]) for row in rows if row["unknown"] == "True"]
    assert scores == sorted(scores, reverse=True)
    sure = [float(row["probability"]) for row in rows if row["unknown"] == "False"]
    assert sure == sorted(sure)


def test_the_network_runs_once_for_each_photo(folders, monkeypatch):
    seen = []

    def counting(pixels):
        seen.append(len(pixels))
        return wide_colours(pixels)

    quick = backbones.Backbone("quick", 16, "", counting)  # not cached, as bodies of runs
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)
    run("classify", "--support", folders / "train", "--query", folders / "test")
    assert sum(seen) == 8 + 6


def test_the_feature_cache_is_shown_and_cleared(folders):
    assert "0.0 MB" in run("cache").stdout
    run("classify", "--support", folders / "train", "--query", folders / "test")
    shown = run("cache", "show").stdout
    assert "quick" in shown
    assert str(feature_cache.cache_path()) in shown.replace("\n", "")
    assert "Removed" in run("cache", "clear").stdout
    assert not feature_cache.cache_path().exists()


def test_a_single_class_is_refused(folders, tmp_path):
    (tmp_path / "one" / "red").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "one" / "red" / "a.png")
    with pytest.raises(AnyshotError, match="at least two"):
        run("classify", "--support", tmp_path / "one", "--query", folders / "test")


def test_test_classes_without_support_photos_are_named(folders, tmp_path):
    (tmp_path / "t" / "violet").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save(tmp_path / "t" / "violet" / "a.png")
    with pytest.raises(AnyshotError, match="violet"):
        run("evaluate", "--support", folders / "train", "--test", tmp_path / "t")


def test_the_weights_are_listed_with_their_card():
    assert "photos-lite0" in run("weights").stdout
    assert run("weights", "list").stdout == run("weights").stdout
    assert "photos-lite0" in run("weights", "show", "photos-lite0").stdout


@pytest.mark.parametrize("command", ["classify", "evaluate", "label"])
def test_commands_take_a_class_prior(folders, tmp_path, command):
    """A prior that makes green rare turns uncertain answers; a wrong one is an error."""
    option = {"classify": "--query", "evaluate": "--test", "label": "--pool"}[command]
    start = (command, "--support", folders / "train", option, folders / "test", "--class-prior")
    with pytest.raises(ClassifierError, match="no share of class 'green & blue'"):
        run(*start, "red=1")
    assert run(*start, "as-given").exit_code == 0
    if command == "classify":
        (tmp_path / "prior.csv").write_text("red,1\ngreen & blue,1e-300\n")
        assert run(*start, tmp_path / "prior.csv", "--csv", tmp_path / "out.csv").exit_code == 0
        rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
        assert {row["class"] for row in rows} == {"red"}


def test_unknown_threshold_zero_flags_every_photo(folders, tmp_path):
    for threshold, flagged in ((0, {"True"}), (1, {"False"})):
        run("classify", "--support", folders / "train", "--query", folders / "test",
            "--unknown-threshold", threshold, "--csv", tmp_path / "out.csv")  # fmt: skip
        rows = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
        assert {row["unknown"] for row in rows} == flagged


def probabilities(path):
    return [
        (row["path"], row["p(red)"], row["unknown"])
        for row in csv.DictReader(path.read_text().splitlines())
    ]


def test_an_exported_classifier_answers_as_the_folder_does(folders, tmp_path, caplog):
    query = ("--query", folders / "test", "--csv", tmp_path / "out.csv", "--class-prior")
    run("classify", "--support", folders / "train", *query, "as-given")
    expected = probabilities(tmp_path / "out.csv")
    saved = tmp_path / "colours.anyshot"
    run("export", saved, "--support", folders / "train", "--class-prior", "as-given")
    done = run("classify", "--support", saved, *query[:-1])
    assert "photo 1 of" not in done.stdout  # labels are checked where the photos are
    assert probabilities(tmp_path / "out.csv") == expected
    run("classify", "--support", saved, *query, "red=1e-9,green & blue=1")
    assert {float(p) < 0.01 for _, p, _ in probabilities(tmp_path / "out.csv")} == {True}
    run("classify", "--support", saved, "--unknown-threshold", 0, *query[:-1])
    assert {unknown for _, _, unknown in probabilities(tmp_path / "out.csv")} == {"True"}
    caplog.clear()
    assert run("evaluate", "--support", saved, "--test", folders / "train").exit_code == 0
    assert "photo 1 of colours.anyshot" in caplog.text


def test_export_refuses_other_endings_and_options_of_a_saved_classifier(folders, tmp_path):
    with pytest.raises(AnyshotError, match=r"a\.pt .*\.onnx .*\.anyshot"):
        run("export", tmp_path / "a.pt", "--support", folders / "train")
    saved = tmp_path / "a.anyshot"
    run("export", saved, "--support", folders / "train")
    for option in (("--side", 32), ("--backbone", "efficientnet-lite1"), ("--weights", "x")):
        with pytest.raises(AnyshotError, match=option[0]):
            run("classify", "--support", saved, "--query", folders / "test", *option)


def test_export_of_a_function_to_onnx_says_what_can_be_exported(folders, tmp_path):
    with pytest.raises(ClassifierError, match=r"'quick'.*nn\.Module"):
        run("export", tmp_path / "a.onnx", "--support", folders / "train")
    assert not (tmp_path / "a.onnx").exists()
