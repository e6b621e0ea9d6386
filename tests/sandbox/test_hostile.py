"""Programs that try to get out, to hang, to flood or to forge: each is contained, and none earns a reward."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grpodyn.sandbox.judge import judge
from grpodyn.sandbox.limits import MIB, Limits
from grpodyn.sandbox.program import Program, StdioCase

TIGHT = Limits(test_seconds=1.0, cpu_seconds=2, memory_bytes=256 * MIB, scratch_bytes=4 * MIB, file_bytes=MIB)
HERE = Path(__file__).parent
HOSTILE = sorted((HERE / "hostile").glob("*.py.txt"))
TESTS = ("assert solve(2) == 4", "assert solve(3) == 9")
HONEST = "def solve(n):\n    return n * n\n"


def program(path, canary="/nowhere/canary", port=1):
    code = path.read_text().replace("@CANARY@", str(canary)).replace("@PORT@", str(port))
    return Program(code, TESTS, cases=(StdioCase("2\n", "4\n"),))


def test_there_are_enough_of_them():
    assert len(HOSTILE) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.name.removesuffix(".py.txt"))
def test_contained_and_unrewarded(path, kind, tmp_path, left_behind):
    canary = tmp_path / "canary"
    tmp_path.chmod(0o777)
    outcome = judge(program(path, canary), kind, TIGHT)
    assert outcome.passed == 0, [result.why for result in outcome.results]
    assert len(outcome.results) == 3
    assert all(result.why for result in outcome.results)
    assert not canary.exists()
    assert not any(os.path.exists(f"{place}/canary") for place in ("/etc", "/usr", "", "/dev/shm", "/var/tmp"))
    assert left_behind() == []


def test_an_honest_program_earns_its_reward(kind, left_behind):
    outcome = judge(Program(HONEST, TESTS), kind, TIGHT)
    assert outcome.all_passed
    assert left_behind() == []


def test_the_standard_library_is_there(kind):
    code = "import collections, functools, glob, heapq, itertools, math, random, re, string\nsolve = math.isqrt\n"
    assert judge(Program(code, ("assert solve(16) == 4",)), kind, TIGHT).all_passed


def test_a_server_on_this_machine_is_out_of_reach(kind, tmp_path):
    path = next(path for path in HOSTILE if path.name.startswith("talks_to_localhost"))
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(3)

        def serve():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            asked.set()
            connection.sendall(b"4")

        thread = threading.Thread(target=serve)
        thread.start()
        outcome = judge(program(path, port=server.getsockname()[1]), kind, TIGHT)
    thread.join()
    assert not asked.is_set()
    assert outcome.passed == 0


@pytest.mark.parametrize("secret", ["environment", "home"])
def test_secrets_stay_outside(kind, secret, tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "hunter2")
    reads = {
        "environment": "import os, glob\ndef solve(n):\n    text = str(dict(os.environ))\n"
        "    for f in glob.glob('/proc/*/environ'):\n        try: text += open(f).read()\n"
        "        except OSError: pass\n    return text\n",
        "home": "import os\ndef solve(n):\n    seen = []\n    for place in ('/root', '/home'):\n"
        "        try: seen += os.listdir(place)\n        except OSError: pass\n    return ' '.join(seen)\n",
    }
    test = "assert 'hunter2' not in solve(1)" if secret == "environment" else "assert '.bashrc' not in solve(1)"
    assert judge(Program(reads[secret], (test,)), kind, TIGHT).all_passed


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_contained_for_an_ordinary_user(kind, left_behind):
    """The other tests run as whoever runs them; here root gives itself up first, for every hostile program."""
    command = [sys.executable, str(HERE / "as_nobody.py"), str(kind), str(HERE / "hostile")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if "cannot be run by the ordinary user" in done.stderr:
        pytest.skip("no Python on this machine that an ordinary user can run")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == len(HOSTILE)
    assert left_behind() == []
