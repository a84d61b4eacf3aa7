"""The project file, the CSV file and the example pictures. The page itself opens project files."""

from __future__ import annotations

import csv
import io
import json
import zipfile

import numpy as np
import pytest
from PIL import Image
from support import noise_png

from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.limits import Limits
from anyshot.classifier.web.project_file import project_zip
from anyshot.classifier.web.uploads import THUMBNAIL_SIDE
from anyshot.classifier.web.workspace import Workspace


def unzip(data: bytes) -> tuple[dict, dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(files.pop("project.json")), files


def test_a_project_has_every_photo_as_it_was_uploaded(busy):
    red = busy.state()["classes"][0]["id"]
    busy.patch(f"/api/classes/{red}/used", json={"used": 2}).raise_for_status()
    busy.patch("/api/prior", json={"as_given": True}).raise_for_status()
    sent = busy.get("/api/project")
    assert "attachment" in sent.headers["content-disposition"]
    project, files = unzip(sent.content)
    assert project["classes"] == [{"name": "red", "used": 2}, {"name": "green", "used": 1}]
    assert (project["as_given"], project["threshold"]) == (True, None)
    rows = [(row["class"], files[row["file"]]) for row in project["photos"]]
    assert rows == [
        *((0, noise_png(0, i)) for i in range(3)),
        (1, noise_png(1, 0)),
        *((None, noise_png(channel, 50)) for channel in (0, 1)),
    ]
    assert len(files) == 6


@pytest.mark.parametrize("name", ["../../etc", "a/b\\c", "..", "C:\\x", "\u202etxt.exe", "x" * 60])
def test_no_name_leaves_its_folder(reader, name):
    workspace = Workspace(reader, Limits())
    workspace.add_class(name)
    workspace.add_photo(name, noise_png(0, 0), next(iter(workspace.groups)))
    workspace.add_photo(name, noise_png(0, 0), POOL)
    project, files = unzip(b"".join(project_zip(*workspace.snapshot())))
    assert [row["name"] for row in project["photos"]] == [name, name]
    for path in files:
        parts = path.split("/")
        assert len(parts) <= 3
        assert not {"..", ".", ""} & set(parts)
        assert "\\" not in path
        assert ":" not in path


def test_folders_have_the_names_of_their_classes_or_one_that_is_unique(reader):
    workspace = Workspace(reader, Limits())
    names = ["sea lion", "Éclair", "a/b", "03 a_b", ".hidden", "NUL", "x."]
    for name in names:
        workspace.add_class(name)
        workspace.add_photo("1.png", noise_png(0, 0), list(workspace.groups)[-1])
    project, files = unzip(b"".join(project_zip(*workspace.snapshot())))
    assert [row["class"] for row in project["photos"]] == list(range(len(names)))
    assert [path.split("/")[1] for path in files] == [
        "sea lion", "Éclair", "03 a_b_", "03 a_b", "05 .hidden", "06 NUL", "07 x"
    ]  # fmt: skip


def test_photos_beyond_the_memory_are_saved_as_they_are_shown(reader):
    workspace = Workspace(reader, Limits(file_megabytes=0))
    workspace.add_photo("a.png", noise_png(0, 0), POOL)
    _, files = unzip(b"".join(project_zip(*workspace.snapshot())))
    ((path, data),) = files.items()
    assert path.endswith("a.jpg")
    assert Image.open(io.BytesIO(data)).size == (THUMBNAIL_SIDE, THUMBNAIL_SIDE)


def test_labels_that_are_right_stay_so_in_a_project(busy):
    red, green = busy.state()["classes"]
    kept, moved = (photo["id"] for photo in red["pictures"][:2])
    busy.post("/api/confirm", json={"photos": [kept, moved]}).raise_for_status()
    busy.move(green["id"], moved).raise_for_status()  # its new label was not confirmed
    project, _ = unzip(busy.get("/api/project").content)
    assert [row.get("confirmed") for row in project["photos"]].count(True) == 1
    assert project["photos"][0]["confirmed"] is True


def test_an_uploaded_label_may_be_right_although_it_looks_wrong(reader):
    workspace = Workspace(reader, Limits())
    workspace.add_class("red")
    key = next(iter(workspace.groups))
    workspace.add_photo("1.png", noise_png(0, 0), key, confirmed=True)
    workspace.add_photo("2.png", noise_png(0, 1), key)
    assert workspace.now.confirmed == {(workspace.groups[key].photos[0], key)}


def test_a_project_replaces_what_was_there(busy):
    state = busy.post(
        "/api/project", json={"classes": ["a", "b"], "as_given": True, "threshold": 0.7}
    ).json()
    assert [c["name"] for c in state["classes"]] == ["a", "b"]
    assert state["pool"] == []
    assert state["as_given"] is True
    assert len(busy.post("/api/undo").json()["pool"]) == 2


def test_excel_reads_the_letters_of_the_csv_file(busy):
    assert busy.get("/api/answers.csv").content.startswith(b"photo,")
    busy.upload("pool", noise_png(0, 60), "Ameise grün.png").raise_for_status()
    content = busy.get("/api/answers.csv").content
    assert content.startswith(b"\xef\xbb\xbfphoto,")
    assert "grün" in content.decode("utf-8-sig")


def test_the_csv_file_has_all_answers(busy):
    busy.upload("pool", noise_png(0, 60), "=1+1.png").raise_for_status()
    rows = list(csv.DictReader(io.StringIO(busy.get("/api/answers.csv").text)))
    state = busy.state()
    names = {c["id"]: c["name"] for c in state["classes"]}
    assert len(rows) == len(state["pool"]) == 3
    for row, photo in zip(rows, state["pool"], strict=True):
        p = photo["probabilities"]
        assert row["class"] == names[max(p, key=p.get)]
        assert float(row["p(red)"]) + float(row["p(green)"]) == pytest.approx(1, abs=2e-6)
        for key, value in p.items():
            assert float(row[f"p({names[key]})"]) == pytest.approx(value, abs=1e-6)
        assert row["unknown"] == str(photo["unknown"])
    assert not rows[2]["photo"].startswith("=")  # no spreadsheet runs it


def test_without_answers_there_is_no_csv_file(visitor):
    assert visitor.get("/api/answers.csv").status_code == 409
    assert visitor.get("/api/tradeoff").status_code == 409


def test_the_example_pictures_are_one_change(visitor):
    state = visitor.post("/api/examples").json()
    counts = [len(c["pictures"]) for c in state["classes"]]
    assert len(set(counts)) == 3  # uneven
    assert state["undo"] == "add classes and photos"
    assert all("probabilities" in row for row in state["pool"])
    shown = visitor.get(f"/api/pictures/{state['pool'][0]['id']}").content
    assert np.asarray(Image.open(io.BytesIO(shown))).std() > 10  # something is drawn
    state = visitor.post("/api/undo").json()
    assert (state["classes"], state["pool"], state["undo"]) == ([], [], "")


@pytest.mark.parametrize("threshold", [0.7, None])
def test_a_project_starts_with_its_threshold(busy, threshold):
    values = {"classes": ["a"], "as_given": False, "threshold": threshold}
    assert busy.post("/api/project", json=values).status_code == 200
    project, _ = unzip(busy.get("/api/project").content)
    assert project["threshold"] == threshold
