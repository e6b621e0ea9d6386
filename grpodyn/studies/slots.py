"""What of a machine each of several trainings gets: cores, threads, and a GPU where there are some. No torch."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpodyn.errors import UsageError

_DEVICE = re.compile(r"nvidia\d+")
NO_GPUS = "none"


@dataclass(frozen=True)
class Slot:
    """The share of one worker."""

    number: int
    cores: tuple[int, ...]
    """Those that its processes run on; none where the system does not say, or where one worker has all."""
    threads: int
    """Of the training; helpers of the recorder use the other cores of the slot."""
    gpu: str | None
    """As `CUDA_VISIBLE_DEVICES` names it; None trains without."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables that hold a process to its slot."""
        return {
            "OMP_NUM_THREADS": str(self.threads),
            "MKL_NUM_THREADS": str(self.threads),
            "TOKENIZERS_PARALLELISM": "false",
            "CUDA_VISIBLE_DEVICES": self.gpu or "",
        }


def usable_cores() -> tuple[int, ...]:
    """Return the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def usable_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the GPUs that may be handed out: those that `CUDA_VISIBLE_DEVICES` names, else every NVIDIA device.

    Asking torch would take seconds, and hold memory on each of them.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(part.strip() for part in named.split(",") if part.strip() not in ("", "-1"))
    found = [path.name for path in devices.glob("nvidia*") if _DEVICE.fullmatch(path.name)]
    return tuple(sorted((name.removeprefix("nvidia") for name in found), key=int))


def chosen_gpus(wanted: str | None) -> tuple[str, ...]:
    """Return the GPUs to hand out: all, those of a list such as `0,2`, or with `none` none.

    Raises:
        UsageError: the list names none.
    """
    if wanted is None:
        return usable_gpus()
    if wanted == NO_GPUS:
        return ()
    named = tuple(part.strip() for part in wanted.split(",") if part.strip())
    if not named:
        raise UsageError(f"--gpus {wanted!r}: expected devices such as 0,1, or {NO_GPUS}")
    return named


def divide(
    workers: int | None, threads: int | None, *, small: bool, gpus: Sequence[str], cores: Sequence[int]
) -> list[Slot]:
    """Divide a machine among workers.

    Without a wish, a GPU is one worker; without GPUs small models train one a core with one thread each, as threads of
    models this size mostly wait for each other, and any other model trains alone. Cores are dealt out in equal parts;
    more workers than GPUs share them in turn.

    Args:
        workers: how many; None to choose.
        threads: of each; None to choose.
        small: whether every model is one that ships with this package.
        gpus: to hand out.
        cores: to hand out.

    Raises:
        UsageError: a count that makes no sense.

    >>> [(slot.cores, slot.threads) for slot in divide(None, None, small=True, gpus=(), cores=range(4))]
    [((0,), 1), ((1,), 1), ((2,), 1), ((3,), 1)]
    >>> [(slot.gpu, slot.cores) for slot in divide(None, None, small=False, gpus=("0", "1"), cores=range(4))]
    [('0', (0, 1)), ('1', (2, 3))]
    """
    for what, count in (("--workers", workers), ("--threads", threads)):
        if count is not None and count < 1:
            raise UsageError(f"{what} {count}: expected at least 1")
    if workers is None:
        workers = len(gpus) or (max(1, len(cores) // (threads or 1)) if small else 1)
    each = max(1, len(cores) // workers)
    if threads is None:
        threads = 1 if small else each
    # Slots that overlap, or the one that has everything, are left to the system's scheduler.
    pinned = workers > 1 and len(cores) >= workers * threads
    return [
        Slot(
            number,
            tuple(cores[number * each : (number + 1) * each]) if pinned else (),
            threads,
            gpus[number % len(gpus)] if gpus else None,
        )
        for number in range(workers)
    ]
