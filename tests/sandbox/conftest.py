import os
import time
from pathlib import Path

import pytest

from grpodyn.sandbox.walls import FIRST_USER, USERS, Kind, why_not


@pytest.fixture(scope="session", params=[Kind.BUBBLEWRAP, Kind.NAMESPACES], ids=str)
def kind(request):
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(f"{request.param} cannot be built here: {reason}")
    return request.param


@pytest.fixture(scope="session")
def left_behind():
    """Return a function that lists what still lives of the sandbox; it waits a moment for the kernel to clear up."""
    return _left_behind


def _left_behind() -> list[str]:
    for _ in range(100):
        found = [line for pid in os.listdir("/proc") if pid.isdigit() and (line := _ours(pid))]
        if not found:
            return []
        time.sleep(0.02)
    return found


def _ours(pid: str) -> str | None:
    try:
        user = os.stat(f"/proc/{pid}").st_uid
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    mine = FIRST_USER <= user < FIRST_USER + USERS or "grpodyn.sandbox.inside" in command
    return f"{pid} {state} {command[:80]}" if mine and state != "Z" else None
