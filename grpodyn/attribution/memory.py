"""Outcomes kept on disk as they come, so that a second start makes none of them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from grpodyn.attribution.asking import Outcomes, Split
from grpodyn.attribution.state import State

FILE = "attribution_cache.jsonl"


class OutcomeFile:
    """One JSON line an evaluation, under a hash of everything that decides it.

    Args:
        path: the file; it may be absent, and a last line cut short by a kill is ignored.
        base: digest of the base weights.
        final: digest of the trained weights.
        prompts: digest of the prompts of each split.
        evaluator: what is measured, with which settings.
    """

    def __init__(self, path: Path, base: str, final: str, prompts: Mapping[str, str], evaluator: str) -> None:
        self._path = path
        self._stem = f"{base}\n{final}\n{evaluator}"
        self._prompts = prompts
        self._known = _read(path)

    def get(self, state: State, split: Split) -> Outcomes | None:
        """Return what was measured before, or None."""
        return self._known.get(self._key(state, split))

    def put(self, state: State, split: Split, outcomes: Outcomes) -> None:
        """Append one line, whole or not at all as far as a reader can tell."""
        key = self._key(state, split)
        self._known[key] = outcomes
        greedy = None if np.isnan(outcomes.greedy) else outcomes.greedy
        line = json.dumps({"key": key, "greedy": greedy, "value": [float(v) for v in outcomes.value]})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def _key(self, state: State, split: Split) -> str:
        return hashlib.sha256(f"{self._stem}\n{self._prompts[split]}\n{state.digest}".encode()).hexdigest()


def _read(path: Path) -> dict[str, Outcomes]:
    found: dict[str, Outcomes] = {}
    if not path.is_file():
        return found
    whole = path.read_bytes()
    if whole and not whole.endswith(b"\n"):
        # A killed process left half a line; what is appended next must not join it.
        kept = whole[: whole.rfind(b"\n") + 1]
        path.write_bytes(kept)
        whole = kept
    for line in whole.splitlines():
        try:
            row = json.loads(line)
            values = np.array(row["value"], dtype=np.float64)
            greedy = float("nan") if row["greedy"] is None else float(row["greedy"])
            found[str(row["key"])] = Outcomes(values, greedy)
        except (ValueError, KeyError, TypeError):
            continue
    return found
