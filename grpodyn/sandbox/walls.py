"""Which walls this machine can build around a process, found out by building them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from grpodyn.errors import ConfigError


class Kind(StrEnum):
    """How the walls are built, best first."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    LIMITS_ONLY = "limits"


MISSING = {
    Kind.BUBBLEWRAP: ("memory is limited per process, not for a program and its children together",),
    Kind.NAMESPACES: (
        "memory is limited per process, not for a program and its children together",
        "files outside home, data and run-time folders can be read (never written)",
    ),
    Kind.LIMITS_ONLY: (
        "memory is limited per process, not for a program and its children together",
        "files that this user may read or write are open",
        "the network is open",
        "other processes of this user can be seen and signalled",
        "a process that leaves its group outlives the test",
    ),
}


@dataclass(frozen=True)
class Walls:
    """What stands between a program and this machine."""

    kind: Kind
    missing: tuple[str, ...]
    """What is not walled off, in words."""

    @classmethod
    def of(cls, kind: Kind) -> Walls:
        """Return the walls of a kind."""
        return cls(kind, MISSING[kind])


def find_walls(allow_missing: bool = False) -> Walls:
    """Return the best walls that stand on this machine.

    Args:
        allow_missing: accept limits alone, where no walls can be built.

    Raises:
        ConfigError: none can be built, and that is not accepted.
    """
    tried = _tried()
    for kind in (Kind.BUBBLEWRAP, Kind.NAMESPACES):
        if tried[kind] is None:
            return Walls.of(kind)
    if allow_missing:
        return Walls.of(Kind.LIMITS_ONLY)
    reasons = "; ".join(f"{kind}: {why}" for kind, why in tried.items())
    raise ConfigError(
        f"model-written code is not run: no walls can be built here ({reasons}). Install bubblewrap from the "
        "distribution, or allow unprivileged user namespaces. A reward of your own may do without, by "
        "SandboxPool(allow_missing_walls=True); then " + "; ".join(MISSING[Kind.LIMITS_ONLY])
    )


@cache
def _tried() -> dict[Kind, str | None]:
    """Return, for each kind of walls, None if a program behind them answers, else why not."""
    return {kind: why_not(kind) for kind in (Kind.BUBBLEWRAP, Kind.NAMESPACES)}


def why_not(kind: Kind) -> str | None:
    """Build walls of a kind around a program that does nothing; return None if it answers, else why not."""
    from grpodyn.sandbox.limits import Limits  # noqa: PLC0415  # the process needs the walls
    from grpodyn.sandbox.process import Inside, Role  # noqa: PLC0415

    if kind is Kind.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bwrap is not installed"
    try:
        with Inside(Role.SOLUTION, kind, Limits()) as process:
            process.send({"code": "ready = 1"})
            process.receive()
            answer = process.receive()
    except (OSError, subprocess.SubprocessError, ConfigError) as error:
        return str(error) or type(error).__name__
    return None if answer.get("loaded") else f"the probe answered {answer!r}"


def user_for(slot: int) -> int | None:
    """Return the user that a program runs as when this process is root: one of its own a slot, so that the kernel
    counts its processes apart. None for an ordinary user, whose programs stay that user in a namespace of their own.
    """
    return FIRST_USER + slot % USERS if os.getuid() == 0 else None


FIRST_USER, USERS = 61184, 4336
"""The range that systemd keeps for users made up on the fly (`DynamicUser`)."""
