"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import gc
import signal

import pytest
from hypothesis import settings

# Trainings on several ranks are started once for many files. Programs in the sandbox are counted over the whole
# machine, and the kernel limits them by a user that two pools would share.
TOGETHER = ("tests/distributed/", "tests/sandbox/")

# How long an example takes depends on what else runs on the machine.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests of Ctrl-C need it heard.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# First: pytest-xdist reads the groups when it gets the items.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests stay on one core: those of a file, and those of a folder whose fixtures or limits are shared."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            file = item.nodeid.partition("::")[0]
            folder = next((folder for folder in TOGETHER if file.startswith(folder)), file)
            item.add_marker(pytest.mark.xdist_group(folder))


def pytest_collection_finish() -> None:
    # What was imported and collected stays until the end. Trainers collect garbage as they begin and as they end, and
    # would look through all of it each time, which takes longer than the trainings of these tests.
    gc.collect()
    gc.freeze()
