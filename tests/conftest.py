"""What all tests share."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # before torch is loaded: no spinning when tests share the cores

import pytest
import torch
from hypothesis import settings

with contextlib.suppress(ImportError):
    import pretend  # noqa: F401 (autograd counts the devices at the first backward pass of the process, and never again)

torch.set_num_threads(1)  # small tensors, several test processes

# A first call may compile, build or load something: no single example has a deadline, and a failure comes back.
settings.register_profile("anyshot", deadline=None, print_blob=True)
settings.load_profile("anyshot")

collect_ignore = [
    "helpers/pretend.py"
]  # looked through for examples, it would set up its device twice


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """What a test printed may name a file whose name is not UTF-8, which pytest-xdist's workers could not send."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report
