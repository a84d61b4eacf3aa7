"""Settings of all tests."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

# before torch is loaded: threads must not spin when test processes share the cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
import torch
from hypothesis import settings

with contextlib.suppress(ImportError):
    # autograd counts the devices at the first backward pass of the process and never again
    import fake_device  # noqa: F401

torch.set_num_threads(1)  # small tensors, several test processes

# no deadline, because a first call may compile something; print_blob makes failures reproducible
settings.register_profile("anyshot", deadline=None, print_blob=True)
settings.load_profile("anyshot")

# searched for doctests, it would create its device twice
collect_ignore = ["helpers/fake_device.py"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Escape file names that are not UTF-8 in captured output; pytest-xdist cannot send them."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def restored_logger() -> Iterator[None]:
    """The commands set the level of anyshot's logger; later tests in this process keep theirs."""
    logger = logging.getLogger("anyshot")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.propagate, logger.handlers = propagate, handlers
