"""Requests that another site makes a browser send are refused."""

from __future__ import annotations

import pytest
from support import noise_png

from anyshot.classifier.web.request_guard import RequestGuard
from anyshot.classifier.web.server import host_names


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://localhost:9999",
        "http://localhost.evil.example",
        None,
    ],
)
def test_a_change_that_another_site_asks_for_is_refused(busy, origin):
    before = busy.state()
    headers = {} if origin is None else {"Origin": origin}
    del busy.headers["Origin"]
    photo = before["pool"][0]["id"]
    requests = [
        ("POST", "/api/classes", {"json": {"name": "x"}}),
        ("POST", "/api/pictures?target=pool", {"content": noise_png(0, 0)}),
        ("POST", "/api/pictures/remove", {"json": {"photos": [photo]}}),
        ("DELETE", "/api/state", {}),
    ]
    for method, path, body in requests:
        refused = busy.request(method, path, headers=headers, **body)
        assert refused.status_code == 403
        assert "refused" in refused.json()["error"]
    assert busy.state() == before


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a:b:c"],
)
def test_a_name_that_was_pointed_here_is_refused_even_to_look(visitor, host):
    for path in ("/", "/api/state", "/static/page.js"):
        refused = visitor.get(path, headers={"Host": host})
        assert refused.status_code == 403
        assert (host or "nothing") in refused.json()["error"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8765", "127.0.0.1:8765", "[::1]:8765", "192.168.1.7:80"]
)
def test_addresses_and_localhost_are_ours(visitor, host):
    assert visitor.get("/api/state", headers={"Host": host}).status_code == 200
    added = visitor.post(
        "/api/classes", json={"name": "x"}, headers={"Host": host, "Origin": f"http://{host}"}
    )
    assert added.status_code == 200


def test_the_name_of_this_computer_is_ours_only_if_others_may_reach_it(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Mill")
    monkeypatch.setattr("socket.getfqdn", lambda: "mill.example")
    assert not RequestGuard(None, host_names("127.0.0.1")).is_known_host("mill")
    guard = RequestGuard(None, host_names("0.0.0.0"))
    assert all(
        guard.is_known_host(name)
        for name in ("mill", "mill:8765", "MILL.local", "mill.example", "localhost")
    )
    assert not guard.is_known_host("other.example")


def test_every_answer_forbids_frames_scripts_and_sources_from_elsewhere(visitor):
    for answer in (visitor.get("/"), visitor.get("/static/page.js"), visitor.get("/nowhere"),
                   visitor.get("/", headers={"Host": "evil.example"})):  # fmt: skip
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
