"""One process behind walls, and the pipe to it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import struct
import subprocess
import time
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from grpodyn.errors import ConfigError
from grpodyn.sandbox.interpreter import Interpreter, own_interpreter, public_interpreter
from grpodyn.sandbox.limits import Limits
from grpodyn.sandbox.pipe import Lost, read_all, read_frame
from grpodyn.sandbox.walls import Kind, user_for

_slots = itertools.count(os.getpid() * 64)


class Role(StrEnum):
    """Which program runs inside; the value is its file."""

    SOLUTION = "solution"
    CHECKER = "checker"
    STDIO = "stdio"


class Inside:
    """A confined process; leaving the `with` block kills it and everything it started.

    Raises:
        OSError: it cannot be started.
        ConfigError: root finds no Python that an ordinary user may run.
    """

    def __init__(self, role: Role, kind: Kind, limits: Limits, stdin: str | None = None, code: str = "") -> None:
        self._limits = limits
        uid = user_for(next(_slots))
        python = _interpreter(kind)
        argv = [*_walls(kind, limits, python, uid), str(python.executable), "-I", "-S", "-B", "-X", "utf8", "-c"]
        argv.append(_source(role, kind, limits, python))
        # Root becomes `uid` inside bubblewrap itself, which needs root's rights to show folders of root.
        become = None if uid is None or kind is Kind.BUBBLEWRAP else uid
        settings = {
            "limits": limits.to_dict(),
            "uid": uid if become is None else None,
            "scratch": "/tmp" if kind is not Kind.LIMITS_ONLY else None,  # noqa: S108  # the one inside
        }
        if role is Role.STDIO:
            self._start_stdio(argv, become, settings, stdin or "", code)
        else:
            self._process = _popen(argv, become, subprocess.PIPE, subprocess.PIPE, ())
            self.send(settings)

    def _start_stdio(
        self, argv: list[str], become: int | None, settings: dict[str, Any], stdin: str, code: str
    ) -> None:
        given, settings_file = _memory_file(stdin.encode()), _memory_file(_frame(settings) + _frame({"code": code}))
        try:
            self._process = _popen([*argv, str(settings_file)], become, given, subprocess.PIPE, (settings_file,))
        finally:
            os.close(given)
            os.close(settings_file)

    def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            Lost: the process is gone.
        """
        self.forward(json.dumps(message).encode())

    def forward(self, payload: bytes) -> None:
        """Write a message that is JSON already.

        Raises:
            Lost: the process is gone.
        """
        assert self._process.stdin is not None  # noqa: S101  # for the type checker: this role has one
        try:
            self._process.stdin.write(struct.pack(">I", len(payload)) + payload)
            self._process.stdin.flush()
        except OSError:
            raise Lost("ended early") from None

    def receive_bytes(self, deadline: float | None = None) -> bytes:
        """Return the next message, unread.

        Args:
            deadline: on the clock of `time.monotonic`; by default the limit of one test from now.

        Raises:
            Lost: the process is gone, too slow, or says too much.
        """
        assert self._process.stdout is not None  # noqa: S101
        until = time.monotonic() + self._limits.test_seconds if deadline is None else deadline
        return read_frame(self._process.stdout.fileno(), self._limits.message_bytes, until)

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """Return the next message.

        Raises:
            Lost: as `receive_bytes`, or it is no JSON object.
        """
        try:
            message = json.loads(self.receive_bytes(deadline))
        except (ValueError, RecursionError):
            raise Lost("said something that is no message") from None
        if not isinstance(message, dict):
            raise Lost("said something that is no message")
        return message

    def read_to_end(self) -> bytes:
        """Return everything that a program prints until it ends.

        Raises:
            Lost: it takes too long, prints too much, or ends with an error.
        """
        assert self._process.stdout is not None  # noqa: S101
        until = time.monotonic() + self._limits.test_seconds
        printed = read_all(self._process.stdout.fileno(), self._limits.message_bytes, until)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
        if self._process.returncode is None:
            raise Lost("took too long")
        if self._process.returncode != 0:
            raise Lost("ended with an error")
        return printed

    def close(self) -> None:
        """Kill the process and everything it started, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _popen(argv: list[str], become: int | None, stdin: int, stdout: int, pass_fds: tuple[int, ...]) -> Any:
    who: dict[str, Any] = {} if become is None else {"user": become, "group": become, "extra_groups": []}
    return subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        pass_fds=pass_fds,
        start_new_session=True,
        **who,
    )


def _interpreter(kind: Kind) -> Interpreter:
    """Return a Python that the program's user can reach; root shows bubblewrap whatever it likes."""
    own, root = own_interpreter(), os.getuid() == 0
    if os.access(own.executable, os.X_OK) and (not root or kind is Kind.BUBBLEWRAP):
        return own
    found = public_interpreter()
    if found is None:
        raise ConfigError(
            f"{own.executable} cannot be run by the ordinary user that model-written code runs as; install the "
            "distribution's python3, or bubblewrap"
        )
    return found


def _walls(kind: Kind, limits: Limits, python: Interpreter, uid: int | None) -> list[str]:
    if kind is not Kind.BUBBLEWRAP:
        return []
    # Root makes no user namespace: the program gives root up itself, and the kernel then counts its processes.
    user = ["--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
    keep = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    shown = [part for folder in ("/usr", "/lib", "/lib32", "/lib64", "/bin") for part in _shown(Path(folder))]
    for folder in python.folders:
        # The program's user must be able to pass through, also where the folder lies in the home of root.
        for parent in reversed(folder.parents[:-1]):
            shown += ["--perms", "0755", "--dir", str(parent)]
        shown += ["--ro-bind", str(folder), str(folder)]
    return [
        "bwrap",
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *(user if uid is None else keep),
        *("--die-with-parent", "--new-session"),
        *shown,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(limits.scratch_bytes), "--tmpfs", "/tmp"),  # noqa: S108
        *("--remount-ro", "/"),
        "--",
    ]


def _shown(folder: Path) -> list[str]:
    if folder.is_symlink():
        return ["--symlink", os.readlink(folder), str(folder)]
    return ["--ro-bind", str(folder), str(folder)] if folder.exists() else []


PACKAGES = ("grpodyn", "grpodyn.sandbox", "grpodyn.sandbox.inside")
START = """
import sys, types
for name in {packages!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, text in {modules!r}:
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
"""


@cache
def _text(name: str) -> str:
    return (resources.files("grpodyn.sandbox.inside") / f"{name}.py").read_text(encoding="utf-8")


def _source(role: Role, kind: Kind, limits: Limits, python: Interpreter) -> str:
    """Return a program that needs no file: the modules of `inside` as text, walls first, then the role's `main`."""
    names = ["wire", "confine", *(["namespaces"] if kind is Kind.NAMESPACES else []), role.value]
    inside = PACKAGES[-1]
    source = START.format(packages=PACKAGES, modules=[(f"{inside}.{name}", _text(name)) for name in names])
    if kind is Kind.NAMESPACES:
        needed = [str(folder) for folder in python.folders]
        source += f"sys.modules['{inside}.namespaces'].wall_in({limits.scratch_bytes}, {needed!r})\n"
    return f"{source}sys.modules['{inside}.{role.value}'].main()\n"


def _frame(message: dict[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return struct.pack(">I", len(payload)) + payload


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("given")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
