"""Losses by window and right answers by prompt, kept beside a run's trace, so that changes can be judged on pairs.

`retention.jsonl` in the run directory: a line a measurement, appended. A line that a kill cut short is left out on
reading, and so is one of a step that the trace does not hold: training went back before it. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from grpodyn.trace import strict_json

if TYPE_CHECKING:
    from grpodyn.evaluation.drift import Drift, StartSamples
    from grpodyn.evaluation.perplexity import WindowLosses
    from grpodyn.evaluation.text import HeldOutText
    from grpodyn.trace.reader import Run

FILE = "retention.jsonl"
START = "retention_start.json"
Kind = Literal["text", "stage", "drift"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kept:
    """One measurement: a text's losses by window, a stage's right answers by prompt, or the drift by prompt."""

    step: int
    kind: Kind
    name: str
    values: Floats
    """Nats of a window, chance of the right answer to a prompt, or nats of drift of a prompt's completion."""
    tokens: Floats
    """Scored tokens of each window or completion; empty for a stage."""
    words: Floats
    """Words that begin in each window; empty but for a text."""
    digest: str = ""
    """Of the text."""

    @classmethod
    def of_text(cls, step: int, text: HeldOutText, losses: WindowLosses) -> Kept:
        """Return a text's losses."""
        return cls(step, "text", text.name, losses.nats, losses.tokens, losses.words, text.digest)

    @classmethod
    def of_stage(cls, step: int, name: str, right: Floats) -> Kept:
        """Return a stage's right answers."""
        return cls(step, "stage", name, right, np.zeros(0), np.zeros(0))

    @classmethod
    def of_drift(cls, step: int, drift: Drift) -> Kept:
        """Return the drift."""
        return cls(step, "drift", "kl", drift.nats, drift.tokens, np.zeros(0))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "step": self.step,
            "kind": self.kind,
            "name": self.name,
            "values": self.values.tolist(),
            "tokens": self.tokens.tolist(),
            "words": self.words.tolist(),
            "digest": self.digest,
        }


def append(run_dir: Path, measured: Sequence[Kept]) -> None:
    """Add measurements to a run.

    Raises:
        OSError: the disk is full or gone.
    """
    lines = "".join(strict_json.dumps(one.to_json()) + "\n" for one in measured)
    file = run_dir / FILE
    with file.open("r+b" if file.exists() else "w+b") as stream:
        end = stream.seek(0, 2)
        if end:
            stream.seek(end - 1)
            # What a kill cut short must not swallow the next line.
            if stream.read(1) != b"\n":
                stream.write(b"\n")
        stream.write(lines.encode())


def read(run: Run) -> list[Kept]:
    """Return what was kept, the last of each step and name, by step."""
    path = run.path / FILE
    if not path.exists():
        return []
    known = set(run.steps("evaluations"))
    found: dict[tuple[int, str, str], Kept] = {}
    for line in path.read_bytes().split(b"\n"):
        one = _parsed(line)
        if one is not None and one.step in known:
            found[one.step, one.kind, one.name] = one
    return sorted(found.values(), key=lambda one: one.step)


def _parsed(line: bytes) -> Kept | None:
    try:
        entry = json.loads(line)
        # A loss that is not finite stands as null.
        values, tokens, words = (np.array(entry[key], np.float64) for key in ("values", "tokens", "words"))
        kind, digest = entry["kind"], str(entry["digest"])
        of_each = {"text": (tokens, words), "stage": (), "drift": (tokens,)}[kind]
        if not values.size or any(one.shape != (values.size,) for one in (values, *of_each)):
            return None
        return Kept(int(entry["step"]), kind, str(entry["name"]), values, tokens, words, digest)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def write_start(run_dir: Path, start: StartSamples) -> None:
    """Keep what the starting policy answered.

    Raises:
        OSError: the disk is full or gone.
    """
    strict_json.replace_file(run_dir / START, strict_json.dumps(start.to_json()).encode())


def read_start(run_dir: Path) -> StartSamples | None:
    """Return what the starting policy answered, or None if it was not kept."""
    from grpodyn.evaluation.drift import StartSamples

    try:
        return StartSamples.from_json(json.loads((run_dir / START).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
