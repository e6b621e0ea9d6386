"""Where base models lie on disk: the shipped one in the package, a sibling in a cache, built on first use."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from grpodyn.embedded import MODEL_DIR, SHIPPED
from grpodyn.embedded.bases import Base, base
from grpodyn.errors import ConfigError

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

CACHE = "GRPODYN_CACHE"
"""Environment variable that names another cache directory."""

INDEX = "files.json"
"""Holds the SHA-256 of every file of a cached model."""

UNFINISHED = ".unfinished"

PROGRESS_SECONDS = 10.0


def cache_dir() -> Path:
    """Return `$GRPODYN_CACHE`, or `grpodyn` in the user's cache directory."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "grpodyn"


def model_dir(name: str) -> Path:
    """Return the folder of a base model, which is built now if it is a sibling that is not there yet.

    A build takes minutes and logs its progress. It appears in the cache as a whole or not at all; a folder whose files
    are not what was built is built anew; of several processes that want it, one builds.

    Raises:
        UnknownNameError: there is no such base model.
        ConfigError: the cache cannot be written.
        UsageError: torch is too old to build it.
    """
    if name == SHIPPED:
        return MODEL_DIR
    wanted = base(name)
    target = cache_dir() / f"{name}-{_digest(name)[:12]}"
    if is_whole(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.with_suffix(".lock")):
            if not is_whole(target):
                _build_into(target, wanted)
    except OSError as error:
        raise ConfigError(
            f"the base model {name!r} cannot be built into {target.parent}: {error.strerror or error}; "
            f"name another folder by the environment variable {CACHE}"
        ) from error
    return target


@cache
def _digest(name: str) -> str:
    return base(name).digest()


def is_whole(folder: Path) -> bool:
    """Return whether a cached model is there with exactly the bytes that were built."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return bool(index) and all(_sha256(folder / name) == digest for name, digest in index.items())
    except (OSError, ValueError, AttributeError):
        return False


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build_into(target: Path, wanted: Base) -> None:
    import torch

    from grpodyn.embedded.build import build, save

    if target.exists():
        logger.warning("%s is damaged; building the base model %s anew", target, wanted.name)
        shutil.rmtree(target)
    # A warning, as nobody expects minutes of silence where information is not shown.
    logger.warning("building the base model %s into %s: once, a few minutes", wanted.name, target)
    # Nobody else builds this model now: what is unfinished was left by a build that was killed.
    for left in target.parent.glob(f"{target.name}-*{UNFINISHED}"):
        shutil.rmtree(left, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{target.name}-", suffix=UNFINISHED, dir=target.parent))
    threads = torch.get_num_threads()
    try:
        # The number of threads decides how sums are rounded; one is had everywhere.
        torch.set_num_threads(1)
        model, tokenizer = build(wanted, _progress(wanted.name, wanted.recipe.steps))
        save(wanted, model, tokenizer, unfinished)
        index = {file.name: _sha256(file) for file in sorted(unfinished.iterdir())}
        (unfinished / INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")
        unfinished.replace(target)
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(unfinished, ignore_errors=True)


def _progress(name: str, steps: int) -> Callable[[int, float], None]:
    last = time.monotonic()

    def show(step: int, loss: float) -> None:
        nonlocal last
        if step == steps or time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            logger.info("base model %s: step %d of %d, loss %.3f", name, step, steps, loss)

    return show


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a file lock, which ends with the process that holds it; without file locks, builders do the work twice."""
    with lock.open("w") as held:
        if sys.platform != "win32":
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
