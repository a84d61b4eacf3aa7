from __future__ import annotations

import logging
import sys

import grid_jobs

from anyshot.experiments.launch.worker import JobResult, run_in_worker


def talk(job: str) -> str:
    print("out")
    print("err", file=sys.stderr)
    logging.getLogger("anyshot.training").info("log")
    return job.upper()


def test_output_is_appended_to_the_log_file(tmp_path, capsys):
    folder = tmp_path / "runs" / "grid" / "a"
    for _ in range(2):
        assert run_in_worker(talk, "a", str(folder)) == JobResult("A")
    assert (tmp_path / "runs" / "grid" / "a.log").read_text() == "out\nerr\nlog\n" * 2
    assert tuple(capsys.readouterr()) == ("", "")
    assert logging.getLogger("anyshot").handlers == []


def test_errors_become_results(tmp_path):
    bad = run_in_worker(grid_jobs.fail, tmp_path / "bad", str(tmp_path / "bad"))
    assert bad == JobResult(error="There are no images.")
    assert (tmp_path / "bad.log").read_text() == ""
    bug = run_in_worker(grid_jobs.fail, tmp_path / "bug", str(tmp_path / "bug"))
    assert bug.error.startswith("ZeroDivisionError: division by zero")
    assert "bug.log" in bug.error
    assert "Traceback" in (tmp_path / "bug.log").read_text()
