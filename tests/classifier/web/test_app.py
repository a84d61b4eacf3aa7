"""The page over HTTP: what it answers, what it refuses, and that visitors do not meet."""

from __future__ import annotations

import io
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import numpy as np
import pytest
from PIL import Image
from support import colours, noise_png, wide_colours

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import backbone as backbones
from anyshot.classifier.web.app import STATIC, make_app
from anyshot.classifier.web.uploads import UploadReader


def opened(*files):
    return [Image.open(io.BytesIO(file)) for file in files]


def by_hand(reds, backbone=colours):
    """The classifier that the page should have, made from the files themselves."""
    files = [*(noise_png(0, i) for i in range(reds)), noise_png(1, 0)]
    return AnyShotClassifier(backbone, side=8).fit(opened(*files), ["red"] * reds + ["green"])


def answers(state):
    """Probabilities [pictures, (green, red)]."""
    red, green = (c["id"] for c in state["classes"][:2])
    return [[row["probabilities"][green], row["probabilities"][red]] for row in state["pool"]]


@pytest.mark.parametrize("backbone", [colours, "efficientnet-lite0"])
def test_the_page_says_what_the_classifier_says(visit, teach, backbone, monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path))
    quick = backbones.Backbone("quick", 8, "", wide_colours)
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)
    visitor = teach(visit(make_app(UploadReader(backbone, side=8))))
    state, classifier = visitor.state(), by_hand(3, backbone)
    asked = opened(noise_png(0, 50), noise_png(1, 50))
    np.testing.assert_allclose(answers(state), classifier.predict_proba(asked), atol=1e-6)
    assert [row["unknown"] for row in state["pool"]] == classifier.is_unknown(asked).tolist()
    explanation = classifier.explain()
    assert state["expected"]["overall"] == pytest.approx(explanation.expected)
    assert state["expected"]["low"] == pytest.approx(explanation.low)
    assert state["expected"]["caution"] == explanation.caution
    weights = {c["name"]: c["weight"] for c in state["classes"]}
    assert weights == pytest.approx({c.name: c.weight for c in explanation.classes})
    following = {c["id"]: c["name"] for c in state["classes"]}[state["expected"]["next"]]
    assert following == explanation.next
    assert state["suggested"] == [state["pool"][i]["id"] for i in classifier.label_next(asked)]


def test_pictures_that_are_taken_away_count_no_more_until_they_are_given_back(busy):
    red, asked = busy.state()["classes"][0]["id"], opened(noise_png(0, 50), noise_png(1, 50))
    fewer = busy.patch(f"/api/classes/{red}/used", json={"used": 1}).json()
    assert (fewer["classes"][0]["used"], len(fewer["classes"][0]["pictures"])) == (1, 3)
    assert fewer["classes"][0]["weight"] == pytest.approx(by_hand(1).explain().classes[1].weight)
    np.testing.assert_allclose(answers(fewer), by_hand(1).predict_proba(asked), atol=1e-6)
    back = busy.patch(f"/api/classes/{red}/used", json={"used": 3}).json()
    np.testing.assert_allclose(answers(back), by_hand(3).predict_proba(asked), atol=1e-6)


def test_a_picture_that_is_added_to_a_class_counts_wherever_the_slider_stood(busy):
    red = busy.state()["classes"][0]["id"]
    for added in (lambda: busy.patch(f"/api/pictures/{busy.state()['pool'][0]['id']}", json={"place": red}),
                  lambda: busy.upload(red, noise_png(0, 9))):  # fmt: skip
        busy.patch(f"/api/classes/{red}/used", json={"used": 1}).raise_for_status()
        added().raise_for_status()
        c = busy.state()["classes"][0]
        assert c["used"] == len(c["pictures"])


def test_the_same_picture_in_every_class_is_no_failure(visitor):
    for name in ("red", "green"):
        visitor.add(name, noise_png(0, 0), noise_png(0, 0))
    visitor.upload("pool", noise_png(0, 0)).raise_for_status()
    p = visitor.state()["pool"][0]["probabilities"].values()
    assert sum(p) == pytest.approx(1)


def test_a_name_of_broken_characters_does_no_harm(visitor):
    added = visitor.post("/api/classes", content=rb'{"name": "red \ud800"}')
    assert added.json()["classes"][0]["name"] == "red ?"


def test_a_suggested_picture_goes_into_a_class_and_everything_follows(busy):
    before = busy.state()
    picture, green = before["pool"][1]["id"], before["classes"][1]["id"]
    after = busy.patch(f"/api/pictures/{picture}", json={"place": green}).json()
    assert [row["id"] for row in after["classes"][1]["pictures"]][-1] == picture
    assert picture not in [*after["suggested"], *(row["id"] for row in after["pool"])]
    assert answers(after) != answers(before)[:1]
    assert (
        busy.patch(f"/api/pictures/{picture}", json={"place": "pool"}).json()["expected"]
        == before["expected"]
    )


def test_classes_and_pictures_are_renamed_and_removed(busy):
    red, green = (c["id"] for c in busy.state()["classes"])
    assert (
        busy.patch(f"/api/classes/{red}/name", json={"name": "  dark   red "}).json()["classes"][0][
            "name"
        ]
        == "dark red"
    )
    assert busy.patch(f"/api/classes/{red}/name", json={"name": "Dark red"}).status_code == 200
    picture = busy.state()["pool"][0]["id"]
    assert busy.get(f"/api/pictures/{picture}").headers["content-type"] == "image/jpeg"
    assert len(busy.delete(f"/api/pictures/{picture}").json()["pool"]) == 1
    assert busy.get(f"/api/pictures/{picture}").status_code == 404
    assert [c["id"] for c in busy.delete(f"/api/classes/{red}").json()["classes"]] == [green]
    assert busy.delete("/api/state").json()["classes"] == busy.state()["classes"] == []


def test_one_class_alone_is_not_told_apart_from_anything(visitor):
    visitor.add("red", noise_png(0, 0))
    visitor.add("empty")
    visitor.upload("pool", noise_png(0, 1)).raise_for_status()
    state = visitor.state()
    assert state["expected"] is None
    assert "probabilities" not in state["pool"][0]


def test_a_class_without_pictures_is_left_out_of_what_is_learned(busy):
    before = busy.state()
    empty = busy.add("empty")
    state = busy.state()
    assert empty not in state["pool"][0]["probabilities"]
    assert state["expected"] == before["expected"]


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"hello", "notes.txt cannot be used: not an image"),
        (b"", "not an image"),
        (noise_png(0, 0)[:-30], "damaged"),
    ],
)
def test_what_is_no_picture_is_a_sentence_and_changes_nothing(visitor, file, sentence):
    refused = visitor.upload("pool", file, "notes.txt")
    assert refused.status_code == 400
    assert sentence in refused.json()["error"]
    assert visitor.state()["pool"] == []


def test_a_picture_of_very_many_pixels_is_refused(visitor):
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    assert "too large (9000x9000)" in visitor.upload("pool", file.getvalue()).json()["error"]


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_that_is_too_large_is_refused_announced_or_not(page, announced, visit):
    visitor = visit(page(megabytes=1))
    file = b"x" * 1_000_001
    sent = visitor.upload(
        "pool", file if announced else iter([file[:600_000], file[600_000:]]), "big.jpg"
    )
    assert sent.status_code == 413
    assert sent.json()["error"] == "big.jpg is larger than 1 MB, the most."


def test_too_many_pictures_classes_and_visitors_are_sentences(page, visit):
    app = page(pictures=2, classes=1, visitors=1)
    visitor = visit(app)
    red = visitor.add("red", noise_png(0, 0))
    assert visitor.upload("pool", noise_png(0, 1)).status_code == 204
    assert "2 pictures already" in visitor.upload(red, noise_png(0, 2)).json()["error"]
    assert (
        "1 classes already" in visitor.post("/api/classes", json={"name": "green"}).json()["error"]
    )
    late = visit(app).post("/api/classes", json={"name": "red"})
    assert (late.status_code, late.json()["error"][:10]) == (503, "1 visitors")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/api/classes", {"name": " "}, 400, "1 to 60 characters"),
        ("POST", "/api/classes", {"name": "x" * 61}, 400, "this one has 61"),
        ("POST", "/api/classes", {"name": "RED"}, 400, "There is a class RED already"),
        ("POST", "/api/classes", {"name": 3}, 400, "lacks the text 'name'"),
        ("POST", "/api/classes", [], 400, "not a JSON object"),
        ("POST", "/api/classes", {"name": "x" * 20_000}, 413, "too long"),
        ("PATCH", "/api/classes/RED/used", {"used": 4}, 400, "red has 3 pictures"),
        ("PATCH", "/api/classes/RED/used", {"used": 0}, 400, "red has 3 pictures"),
        ("PATCH", "/api/classes/RED/used", {"used": "2"}, 400, "whole number"),
        ("PATCH", "/api/classes/none/name", {"name": "a"}, 404, "reload"),
        ("PATCH", "/api/pictures/none", {"place": "pool"}, 404, "reload"),
        ("DELETE", "/api/pictures/none", None, 404, "reload"),
        ("POST", "/api/pictures?place=none", None, 404, "reload"),
    ],
)
def test_a_request_that_makes_no_sense_is_one_sentence(busy, method, path, body, status, sentence):
    red = busy.state()["classes"][0]["id"]
    refused = busy.request(method, path.replace("RED", red), json=body)
    assert refused.status_code == status
    assert sentence in refused.json()["error"]


# ------------------------------------------------------------------------------------------------ visitors
def test_visitors_do_not_see_each_other(page, visit):
    app = page()
    one, other = visit(app), visit(app)
    key = one.add("red", noise_png(0, 0))
    picture = one.state()["classes"][0]["pictures"][0]["id"]
    assert other.state()["classes"] == []
    other.add("mine")
    for refused in (other.get(f"/api/pictures/{picture}"), other.upload(key, noise_png(0, 1)),
                    other.delete(f"/api/classes/{key}")):  # fmt: skip
        assert refused.status_code == 404
    assert one.get(f"/api/pictures/{picture}").status_code == 200


def test_the_secret_of_a_visitor_stays_with_the_page(visitor):
    cookie = visitor.post("/api/classes", json={"name": "red"}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in visitor.post("/api/classes", json={"name": "green"}).headers


def test_looking_at_the_page_takes_no_place_from_others(page, visit):
    app = page(visitors=1)
    for _ in range(3):
        assert visit(app).state()["classes"] == []
    visit(app).add("red")


class Slow(UploadReader):
    """Stops in the middle of its work until it may go on."""

    def __init__(self, stop):
        super().__init__(colours, side=8)
        self.stop, self.stopped, self.go_on = stop, threading.Event(), threading.Event()

    def read(self, name, data):
        return self.wait("read") or super().read(name, data)

    def classifier(self):
        return self.wait("learn") or super().classifier()

    def wait(self, at):
        if self.stop == at:
            self.stopped.set()
            assert self.go_on.wait(20)


@pytest.mark.parametrize("stop", ["read", "learn"])
def test_nobody_waits_for_what_the_page_does_for_others(served, stop):
    darkroom = Slow("")
    with served(make_app(darkroom)) as place, ThreadPoolExecutor(2) as pool:
        one, other = (
            httpx2.Client(base_url=place, headers={"Origin": place.rstrip("/")}) for _ in range(2)
        )
        key = one.post("/api/classes", json={"name": "red"}).json()["classes"][0]["id"]
        darkroom.stop = stop
        first = pool.submit(one.post, f"/api/pictures?place={key}", content=noise_png(0, 0))
        if stop == "learn":
            first.result()
            first = pool.submit(one.get, "/api/state")
        assert darkroom.stopped.wait(20)
        darkroom.stop = ""
        second = pool.submit(
            one.post, f"/api/pictures?place={key}", content=noise_png(0, 1)
        )  # waits, on a thread
        assert other.post("/api/classes", json={"name": "blue"}, timeout=10).status_code == 200
        darkroom.go_on.set()
        assert {first.result().status_code, second.result().status_code} <= {200, 204}
        assert len(one.get("/api/state").json()["classes"][0]["pictures"]) == 2
        one.close()
        other.close()


# ------------------------------------------------------------------------------------------------ disk and network
heard: list | None = None


def listen(event, arguments):
    if heard is None:
        return
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if writes or event in ("os.mkdir", "sqlite3.connect", "socket.connect"):
        heard.append((event, str(arguments[0])))


def test_no_upload_is_ever_written_to_disk(visitor):
    global heard
    sys.addaudithook(listen)  # hears every file that Python opens, in any thread
    large = noise_png(0, 9, side=800)
    assert len(large) > 1_000_000  # what web servers like to put into temporary files
    heard = []
    try:
        key = visitor.add("red", large)
        visitor.add("green", noise_png(1, 0))
        visitor.upload("pool", noise_png(1, 2))
        visitor.get(f"/api/pictures/{visitor.state()['pool'][0]['id']}")
        visitor.delete(f"/api/classes/{key}")
        found = list(heard)
    finally:
        heard = None
    assert found == []


def test_the_page_asks_nothing_of_other_sites_and_lacks_nothing():
    texts = {path.name: path.read_text(encoding="utf-8") for path in STATIC.iterdir()}
    for text in texts.values():
        assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {"http://www.w3.org/2000/svg"}
    for name, text in texts.items():
        for used in re.findall(r"""["'](?:/static|\.)/([\w.]+)["']""", text):
            assert used in texts, f"{name} needs {used}"


def test_the_page_and_its_parts_are_served(visitor):
    page = visitor.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<title>anyshot" in page.text
    for path in STATIC.iterdir():
        assert visitor.get(f"/static/{path.name}").content == path.read_bytes()
    assert visitor.get("/static/../app.py").status_code == 404
