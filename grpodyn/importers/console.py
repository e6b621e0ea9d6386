"""Console logs: a dict a line, verl's `step:59 - actor/kl_loss:nan - …`, and `12/100 | loss=0.1 | reward=0.5`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grpodyn.importers import literals
from grpodyn.importers.json_log import rows_log
from grpodyn.importers.log import Log, flattened, number

_VERL = re.compile(r"(?:^|\s)step:(\d+)((?: - \S+?:\S+)+)")
_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b"
_PAIR = re.compile(rf"([A-Za-z_][\w./@-]*)\s*=\s*({_NUMBER})", re.I)
_COLON = re.compile(rf"([A-Za-z_][\w./@ -]*?)\s*:\s*({_NUMBER})(?=\s*(?:[|,;]|$))", re.I)
# Epochs stand in brackets (`Train epoch [1/1]`), steps do not.
_OF_TOTAL = re.compile(r"(?<![\w.\[])(\d+)/(\d+)(?![\w.\]])")
_STEP_WORD = re.compile(r"\b(?:global[_ ])?(?:step|iter(?:ation)?)\s*[:=#]?\s*(\d+)", re.I)
# A line of `key=value` counts as a row only if it speaks of training: configs are printed that way too.
_TELLING = ("reward", "loss", "kl", "entropy", "grad", "rm", "pg")
_LONGEST_LINE = 1_000_000


def from_text(text: str) -> Log | None:
    """Return the log in console output, or None if no line of it is a row.

    Progress bars, warnings and whatever else a console holds are passed over.
    """
    dicts: list[Mapping[Any, Any]] = []
    verl: list[Mapping[Any, Any]] = []
    pairs: list[Mapping[Any, Any]] = []
    for line in text.replace("\r", "\n").split("\n"):
        if not line or len(line) > _LONGEST_LINE:
            continue
        if "step:" in line and (entry := _of_verl(line)) is not None:
            verl.append(entry)
        elif "{" in line and (found := _dicts(line)):
            dicts += found
        elif entry := _of_pairs(line):
            pairs.append(entry)
    # One producer prints rows in one way; what else matches is something said beside them.
    kinds = (
        ("verl's console", verl),
        ("a dict per line", dicts),
        ("a console log (key=value)", pairs),
    )
    producer, entries = max(kinds, key=lambda kind: len(kind[1]))
    return rows_log(producer, entries) if entries else None


def _of_verl(line: str) -> dict[str, Any] | None:
    match = _VERL.search(line)
    if match is None:
        return None
    entry: dict[str, Any] = {"step": int(match[1])}
    for part in match[2].split(" - ")[1:]:
        # Keys hold colons too (`mean@1:…`): the value is what follows the last one.
        key, _, value = part.rpartition(":")
        entry[key.strip()] = value.strip()
    return entry


def _dicts(line: str) -> list[Mapping[Any, Any]]:
    found: list[Mapping[Any, Any]] = []
    at = line.find("{")
    while at >= 0:
        try:
            value, end = literals.parse_at(line, at)
        except ValueError:
            end = at + 1
        else:
            if isinstance(value, Mapping) and _numbers(value):
                found.append(_with_step(value, line[:at]))
        at = line.find("{", end)
    return found


def _numbers(value: Mapping[Any, Any]) -> bool:
    return any(number(item) is not None for _, item in flattened(value))


def _with_step(entry: Mapping[Any, Any], before: str) -> Mapping[Any, Any]:
    """Return a printed dict with the step that the line names before it (`Global step 12: {…}`)."""
    named = _STEP_WORD.search(before)
    return entry if named is None or "step" in entry else {**entry, "step": int(named[1])}


def _of_pairs(line: str) -> dict[str, Any]:
    entry: dict[str, Any] = dict(_PAIR.findall(line))
    if not entry:
        entry = {key.strip(): value for key, value in _COLON.findall(line)}
        if len(entry) < 2:
            return {}
    if not any(word in key.lower() for key in entry for word in _TELLING):
        return {}
    if not any(key.lower() in ("step", "global_step") for key in entry):
        total, word = _OF_TOTAL.search(line), _STEP_WORD.search(line)
        if word is not None or total is not None:
            entry["step"] = word[1] if word is not None else total[1] if total is not None else ""
    return entry
