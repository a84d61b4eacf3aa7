"""The page over HTTP: its answers, its refusals, and the separation of visitors."""

from __future__ import annotations

import io
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx2
import numpy as np
import pytest
from PIL import Image
from support import colours, noise_png, wide_colours

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.backbones import backbone as backbones
from anyshot.classifier.web.app import STATIC, make_app
from anyshot.classifier.web.uploads import UploadReader


def open_images(*files):
    return [Image.open(io.BytesIO(file)) for file in files]


def by_hand(reds, backbone=colours):
    """The classifier that the page should have, fitted to the files themselves."""
    files = [*(noise_png(0, i) for i in range(reds)), noise_png(1, 0)]
    return AnyShotClassifier(backbone, side=8).fit(open_images(*files), ["red"] * reds + ["green"])


def answers(state):
    """Probabilities [photos, (green, red)]."""
    red, green = (c["id"] for c in state["classes"][:2])
    return [[row["probabilities"][green], row["probabilities"][red]] for row in state["pool"]]


@pytest.mark.parametrize("backbone", [colours, "efficientnet-lite0"])
def test_the_page_answers_as_the_classifier_does(visit, teach, backbone, monkeypatch, tmp_path):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path))
    quick = backbones.Backbone("quick", 8, "", wide_colours)
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)
    visitor = teach(visit(make_app(UploadReader(backbone, side=8))))
    state, classifier = visitor.state(), by_hand(3, backbone)
    images = open_images(noise_png(0, 50), noise_png(1, 50))
    np.testing.assert_allclose(answers(state), classifier.predict_proba(images), atol=1e-6)
    assert [row["unknown"] for row in state["pool"]] == classifier.is_unknown(images).tolist()
    explanation = classifier.explain()
    assert state["expected"]["overall"] == pytest.approx(explanation.expected)
    assert state["expected"]["low"] == pytest.approx(explanation.low)
    assert state["expected"]["high"] == pytest.approx(explanation.high)
    assert state["expected"]["caution"] == explanation.caution
    for key in ("weight", "expected", "gain"):
        found = {c["name"]: c[key] for c in state["classes"]}
        assert found == pytest.approx({c.name: getattr(c, key) for c in explanation.classes})
    following = {c["id"]: c["name"] for c in state["classes"]}[state["expected"]["next"]]
    assert following == explanation.next_class
    assert state["suggested"] == [state["pool"][i]["id"] for i in classifier.label_next(images)]


def test_a_pool_unlike_all_classes_is_said(busy):
    assert busy.state()["expected"]["shift"] == ""
    for i in range(24):
        file = io.BytesIO()
        Image.new("RGB", (9, 9), (10 * i, 255, 255)).save(file, "PNG")
        busy.upload("pool", file.getvalue()).raise_for_status()
    state = busy.state()
    unknown = sum(row["unknown"] for row in state["pool"])
    assert unknown > 0.2 * len(state["pool"])
    assert state["expected"]["shift"].startswith(f"{unknown} of {len(state['pool'])} ")
    busy.patch("/api/threshold", json={"threshold": 0.3}).raise_for_status()
    assert "shift" not in busy.state()["expected"]


def test_repeated_photos_are_named(busy):
    state = busy.state()
    assert state["expected"]["repeated"] == ""
    assert [row["repeated"] for row in state["pool"]] == [False, False]
    green = state["classes"][1]["id"]
    busy.upload(green, noise_png(0, 1), "copy.png").raise_for_status()
    busy.upload("pool", noise_png(0, 0)).raise_for_status()
    state = busy.state()
    assert "a.png (red) and copy.png (green)" in state["expected"]["repeated"]
    assert [row["repeated"] for row in state["pool"]] == [False, False, True]
    busy.upload(green, noise_png(1, 0), "again.png").raise_for_status()
    assert "again.png is a.png" in busy.state()["expected"]["repeated"]


def test_unused_photos_do_not_count(busy):
    red = busy.state()["classes"][0]["id"]
    images = open_images(noise_png(0, 50), noise_png(1, 50))
    fewer = busy.patch(f"/api/classes/{red}/used", json={"used": 1}).json()
    assert (fewer["classes"][0]["used"], len(fewer["classes"][0]["pictures"])) == (1, 3)
    assert fewer["classes"][0]["weight"] == pytest.approx(by_hand(1).explain().classes[1].weight)
    np.testing.assert_allclose(answers(fewer), by_hand(1).predict_proba(images), atol=1e-6)
    back = busy.patch(f"/api/classes/{red}/used", json={"used": 3}).json()
    np.testing.assert_allclose(answers(back), by_hand(3).predict_proba(images), atol=1e-6)


def test_a_photo_that_is_added_to_a_class_counts(busy):
    red = busy.state()["classes"][0]["id"]
    photo = busy.state()["pool"][0]["id"]
    for add in (
        lambda: busy.move(red, photo),
        lambda: busy.upload(red, noise_png(0, 9)),
    ):
        busy.patch(f"/api/classes/{red}/used", json={"used": 1}).raise_for_status()
        add().raise_for_status()
        c = busy.state()["classes"][0]
        assert c["used"] == len(c["pictures"])


def test_the_same_photo_in_every_class_gives_probabilities(visitor):
    for name in ("red", "green"):
        visitor.add(name, noise_png(0, 0), noise_png(0, 0))
    visitor.upload("pool", noise_png(0, 0)).raise_for_status()
    p = visitor.state()["pool"][0]["probabilities"].values()
    assert sum(p) == pytest.approx(1)


def test_lone_surrogates_in_a_name_are_replaced(visitor):
    added = visitor.post("/api/classes", content=rb'{"name": "red \ud800"}')
    assert added.json()["classes"][0]["name"] == "red ?"


def test_a_suggested_photo_moves_into_a_class(busy):
    before = busy.state()
    photo, green = before["pool"][1]["id"], before["classes"][1]["id"]
    after = busy.move(green, photo).json()
    assert [row["id"] for row in after["classes"][1]["pictures"]][-1] == photo
    assert photo not in [*after["suggested"], *(row["id"] for row in after["pool"])]
    assert answers(after) != answers(before)[:1]
    assert busy.move("pool", photo).json()["expected"] == before["expected"]


def test_classes_and_photos_are_renamed_and_removed(busy):
    red, green = (c["id"] for c in busy.state()["classes"])
    assert (
        busy.patch(f"/api/classes/{red}/name", json={"name": "  dark   red "}).json()["classes"][0][
            "name"
        ]
        == "dark red"
    )
    assert busy.patch(f"/api/classes/{red}/name", json={"name": "Dark red"}).status_code == 200
    photo = busy.state()["pool"][0]["id"]
    assert busy.get(f"/api/pictures/{photo}").headers["content-type"] == "image/jpeg"
    assert len(busy.remove(photo).json()["pool"]) == 1
    assert busy.get(f"/api/pictures/{photo}").status_code == 404
    assert [c["id"] for c in busy.delete(f"/api/classes/{red}").json()["classes"]] == [green]
    assert busy.delete("/api/state").json()["classes"] == busy.state()["classes"] == []


def test_one_class_alone_is_not_learned(visitor):
    visitor.add("red", noise_png(0, 0))
    visitor.add("empty")
    visitor.upload("pool", noise_png(0, 1)).raise_for_status()
    state = visitor.state()
    assert state["expected"] is None
    assert "probabilities" not in state["pool"][0]


def test_a_class_without_photos_is_not_learned(busy):
    before = busy.state()
    empty = busy.add("empty")
    state = busy.state()
    assert empty not in state["pool"][0]["probabilities"]
    assert state["expected"] == before["expected"]


# ---------- refusals
@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"hello", "notes.txt cannot be used: not an image"),
        (b"", "an empty file"),
        (noise_png(0, 0)[:-30], "damaged"),
    ],
)
def test_a_file_that_is_no_image_is_refused(visitor, file, sentence):
    refused = visitor.upload("pool", file, "notes.txt")
    assert refused.status_code == 400
    assert sentence in refused.json()["error"]
    assert visitor.state()["pool"] == []


def test_an_image_with_too_many_pixels_is_refused(visitor):
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    assert "9000x9000" in visitor.upload("pool", file.getvalue()).json()["error"]


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_with_too_many_bytes_is_refused(page, announced, visit):
    visitor = visit(page(megabytes=1))
    file = b"x" * 1_000_001
    sent = visitor.upload(
        "pool", file if announced else iter([file[:600_000], file[600_000:]]), "big.jpg"
    )
    assert sent.status_code == 413
    assert "big.jpg is larger than 1 MB" in sent.json()["error"]
    assert sent.headers["connection"] == "close"  # the rest of the body is not read
    assert "connection" not in visitor.upload("pool", b"hello").headers


def test_too_many_photos_classes_and_visitors_are_refused(page, visit):
    app = page(pictures=2, classes=1, visitors=1)
    visitor = visit(app)
    red = visitor.add("red", noise_png(0, 0))
    assert visitor.upload("pool", noise_png(0, 1)).status_code == 204
    assert "There are 2" in visitor.upload(red, noise_png(0, 2)).json()["error"]
    assert "There are 1" in visitor.post("/api/classes", json={"name": "green"}).json()["error"]
    late = visit(app).post("/api/classes", json={"name": "red"})
    assert late.status_code == 503
    assert "1 visitors" in late.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/api/classes", {"name": " "}, 400, "60"),
        ("POST", "/api/classes", {"name": "x" * 61}, 400, "61"),
        ("POST", "/api/classes", {"name": "RED"}, 400, "RED"),
        ("POST", "/api/classes", {"name": 3}, 400, "'name'"),
        ("POST", "/api/classes", [], 400, "not a JSON object"),
        ("POST", "/api/classes", {"name": "x" * 400_000}, 413, "too long"),
        ("PATCH", "/api/classes/RED/used", {"used": 4}, 400, "red has 3"),
        ("PATCH", "/api/classes/RED/used", {"used": 0}, 400, "red has 3"),
        ("PATCH", "/api/classes/RED/used", {"used": "2"}, 400, "whole number"),
        ("PATCH", "/api/classes/none/name", {"name": "a"}, 404, "reload"),
        ("POST", "/api/pictures/move", {"photos": ["none"], "target": "pool"}, 404, "reload"),
        ("POST", "/api/pictures/move", {"photos": [], "target": "none"}, 404, "reload"),
        ("POST", "/api/pictures/move", {"photos": "x", "target": "pool"}, 400, "'photos'"),
        ("POST", "/api/pictures/remove", {"photos": ["none"]}, 404, "reload"),
        ("POST", "/api/redo", None, 409, "nothing to redo"),
        (
            "POST",
            "/api/project",
            {"classes": ["a", "A"], "as_given": False},
            400,
            "already a class A",
        ),
        ("POST", "/api/project", {"classes": [3]}, 400, "'classes'"),
        ("POST", "/api/pictures?target=none", None, 404, "reload"),
    ],
)
def test_an_invalid_request_is_refused(busy, method, path, body, status, sentence):
    red = busy.state()["classes"][0]["id"]
    refused = busy.request(method, path.replace("RED", red), json=body)
    assert refused.status_code == status
    assert sentence in refused.json()["error"]


# ---------- visitors
def test_visitors_do_not_see_each_other(page, visit):
    app = page()
    one, other = visit(app), visit(app)
    key = one.add("red", noise_png(0, 0))
    photo = one.state()["classes"][0]["pictures"][0]["id"]
    assert other.state()["classes"] == []
    other.add("mine")
    for refused in (other.get(f"/api/pictures/{photo}"), other.upload(key, noise_png(0, 1)),
                    other.delete(f"/api/classes/{key}")):  # fmt: skip
        assert refused.status_code == 404
    assert one.get(f"/api/pictures/{photo}").status_code == 200


def test_the_cookie_is_hidden_from_scripts_and_other_sites(visitor):
    cookie = visitor.post("/api/classes", json={"name": "red"}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in visitor.post("/api/classes", json={"name": "green"}).headers


def test_a_visitor_who_only_looks_gets_no_session(page, visit):
    app = page(visitors=1)
    for _ in range(3):
        assert visit(app).state()["classes"] == []
    visit(app).add("red")


@pytest.mark.parametrize("body", [b"not an image", noise_png(0, 0)[:-30]])
def test_refused_first_uploads_occupy_no_session(page, visit, body):
    app = page(visitors=2)
    for _ in range(5):
        refused = visit(app).upload("pool", body, "photo.heic")
        assert refused.status_code == 400
        assert "set-cookie" not in refused.headers
    visit(app).add("red")


def test_a_refused_first_change_occupies_no_session(page, visit):
    app = page(visitors=1)
    for _ in range(3):
        assert visit(app).post("/api/classes", json={"name": " "}).status_code == 400
    visit(app).add("red")


def test_a_first_upload_is_kept(visitor):
    assert visitor.upload("pool", noise_png(0, 0)).status_code == 204
    assert len(visitor.state()["pool"]) == 1


class SlowReader(UploadReader):
    """Stops at one method until `go_on` is set."""

    def __init__(self):
        super().__init__(colours, side=8)
        self.stop_at = ""
        self.stopped = threading.Event()
        self.go_on = threading.Event()

    def read(self, name, data, limits):
        self.wait("read")
        return super().read(name, data, limits)

    def fit(self, photos, labels):
        self.wait("fit")
        return super().fit(photos, labels)

    def wait(self, method):
        if self.stop_at == method:
            self.stopped.set()
            assert self.go_on.wait(20)


@pytest.mark.parametrize("stop_at", ["read", "fit"])
def test_visitors_do_not_wait_for_each_other(served, stop_at):
    reader = SlowReader()
    with served(make_app(reader)) as url, ThreadPoolExecutor(2) as pool:
        one, other = (
            httpx2.Client(base_url=url, headers={"Origin": url.rstrip("/")}) for _ in range(2)
        )
        for name in ("red", "green"):
            key = one.post("/api/classes", json={"name": name}).json()["classes"][-1]["id"]
            one.post(f"/api/pictures?target={key}", content=noise_png(0, 0)).raise_for_status()
        reader.stop_at = stop_at
        if stop_at == "read":
            target = f"/api/pictures?target={key}"
            first = pool.submit(one.post, target, content=noise_png(0, 1))
        else:
            first = pool.submit(one.get, "/api/state")
        assert reader.stopped.wait(20)
        reader.stop_at = ""
        second = pool.submit(one.get, "/api/state")  # may wait for the first, on a thread
        assert other.post("/api/classes", json={"name": "blue"}, timeout=10).status_code == 200
        reader.go_on.set()
        assert {first.result().status_code, second.result().status_code} <= {200, 204}
        one.close()
        other.close()


# ---------- slow, broken and malicious requests
def test_deeply_nested_json_is_refused(visitor):
    refused = visitor.post("/api/classes", content=b'{"name":' + b"[" * 9000)
    assert refused.status_code == 400


def connect(url: str) -> socket.socket:
    """A connection to the server."""
    _, _, host = url.rstrip("/").partition("//")
    name, _, port = host.partition(":")
    connection = socket.create_connection((name, int(port)), timeout=20)
    return connection


def start_upload(url: str, length: int) -> socket.socket:
    """A connection with the headers of an upload but only the first byte of its body."""
    connection = connect(url)
    host = url.rstrip("/").partition("//")[2]
    head = f"POST /api/pictures?target=pool HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\n\r\nx".encode())
    return connection


def test_a_stalled_upload_is_stopped(page, served):
    with served(page(stall_seconds=0.2)) as url, start_upload(url, 1000) as connection:
        answer = connection.makefile("rb").read()  # ends when the server closes the connection
    assert answer.startswith(b"HTTP/1.1 408")


def test_a_slow_upload_is_stopped(page, served):
    limits = {"request_seconds": 0.5, "stall_seconds": 60}
    with served(page(**limits)) as url, start_upload(url, 1000) as connection:
        reply = connection.makefile("rb")
        for _ in range(20):
            try:
                connection.sendall(b"x")
            except OSError:  # the server has closed the connection
                break
            time.sleep(0.1)
        assert reply.read().startswith(b"HTTP/1.1 408")


def test_unfinished_uploads_hold_a_limited_amount_of_memory(page, served):
    with served(page(visitors=1, megabytes=1)) as url:
        upload = partial(
            httpx2.post, f"{url}api/pictures?target=pool", headers={"Origin": url.rstrip("/")}
        )

        def upload_until(status):
            """Upload what is no image: refused with 400 once it is read, with 503 before."""
            while (refused := upload(content=b"x" * 300_000)).status_code != status:
                assert refused.status_code in (400, 503)
                assert time.monotonic() < end
            return refused

        end = time.monotonic() + 20
        with start_upload(url, 1_000_000) as connection:
            connection.sendall(b"x" * 950_000)
            assert "try again" in upload_until(503).json()["error"]
        upload_until(400)  # the server has noticed that the connection is closed
        for _ in range(10):  # what was refused is no longer held
            assert upload(content=b"x" * 300_000).status_code == 400
        assert upload(content=noise_png(0, 0, side=200)).status_code == 204


def test_a_connection_that_ends_during_an_upload_leaves_no_traceback(page, served, capfd, caplog):
    with served(page()) as url:
        start_upload(url, 1000).close()
        time.sleep(0.5)
        assert httpx2.get(f"{url}api/state").status_code == 200
    assert capfd.readouterr().err == ""
    assert "Traceback" not in caplog.text


# ---------- disk and network
events: list | None = None


def listen(event, arguments):
    if events is None:
        return
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if writes or event in ("os.mkdir", "sqlite3.connect", "socket.connect"):
        events.append((event, str(arguments[0])))


def test_uploads_are_not_written_to_disk(visitor):
    global events
    sys.addaudithook(listen)  # hears every file that Python opens, in any thread
    large = noise_png(0, 9, side=800)
    assert len(large) > 1_000_000  # web servers put large uploads into temporary files
    events = []
    try:
        key = visitor.add("red", large)
        visitor.add("green", noise_png(1, 0))
        visitor.upload("pool", noise_png(1, 2))
        visitor.get(f"/api/pictures/{visitor.state()['pool'][0]['id']}")
        visitor.delete(f"/api/classes/{key}")
        written = list(events)
    finally:
        events = None
    assert written == []


def test_the_page_loads_nothing_from_other_sites():
    texts = {path.name: path.read_text(encoding="utf-8") for path in STATIC.iterdir()}
    for text in texts.values():
        assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {"http://www.w3.org/2000/svg"}
    for name, text in texts.items():
        for used in re.findall(r"""["'](?:/static|\.)/([\w.]+)["']""", text):
            assert used in texts, f"{name} needs {used}"


def test_the_static_files_are_served(visitor):
    page = visitor.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<title>anyshot" in page.text
    for path in STATIC.iterdir():
        assert visitor.get(f"/static/{path.name}").content == path.read_bytes()
    assert visitor.get("/static/../app.py").status_code == 404
