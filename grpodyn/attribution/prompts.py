"""The held-out prompts of an attribution: those that choose and those that confirm, kept apart by hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpodyn.errors import ConfigError, UsageError
from grpodyn.tasks import Examples, Task

CHOOSE, CONFIRM = "choose", "confirm"
Seen = Iterable[tuple[str, Sequence[str]]]
"""Prompts that a run has used, with what for."""


@dataclass(frozen=True)
class HeldOutPrompts:
    """Two sets that share no prompt, and none with what must not be seen."""

    choose: Examples
    confirm: Examples
    source: str

    def of(self, split: str) -> Examples:
        """Return one of the two."""
        return self.choose if split == CHOOSE else self.confirm

    def digests(self) -> dict[str, dict[str, int | str]]:
        """Return size and SHA-256 of each set, as the result states them."""
        return {name: {"prompts": len(self.of(name)), "sha256": digest(self.of(name))} for name in (CHOOSE, CONFIRM)}


def digest(examples: Examples) -> str:
    """Return a SHA-256 of prompts, answers and what else they are judged by."""
    rows = zip(examples.prompts, examples.answers, *examples.columns.values(), strict=True)
    lines = (json.dumps(row, default=str) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def check_split(split: str) -> None:
    """Check that parts may be chosen on a split of a task of this package.

    Raises:
        UsageError: it is one that must stay unseen.
    """
    if split in ("train", CONFIRM, "report"):
        raise UsageError(
            f"--split {split}: parts are chosen on `choose`; `train` was trained on, `confirm` checks what was "
            "chosen, and "
            "`report` is kept for the comparison of trained adapters"
        )


def of_task(task: Task, split: str, count: int, seen: Seen = ()) -> HeldOutPrompts:
    """Return the prompts of a task of this package.

    Args:
        task: the task.
        split: what the parts are chosen on.
        count: at most so many prompts of each set.
        seen: prompts beside the task's own `train` and `report` that must not be among them, with what they were used
            for.

    Raises:
        UsageError: the split is one that must stay unseen, or one of its prompts was seen.
    """
    check_split(split)
    own = {other: task.split(other).prompts for other in ("train", "report")}
    unseen = [*own.items(), *seen]
    return of_splits(split, task.split(split), task.split(CONFIRM), count, f"task {task.name}", unseen)


def of_splits(
    split: str,
    choosing: Examples,
    confirming: Examples,
    count: int,
    source: str,
    seen: Seen,
) -> HeldOutPrompts:
    """Return the prompts of two splits, each once.

    Args:
        split: what the first is called.
        choosing: all its examples.
        confirming: all examples of `confirm`.
        count: at most so many prompts of each set.
        source: where they come from.
        seen: prompts that must not be among them, with what they were used for.

    Raises:
        UsageError: a split is empty, a prompt is in both, or one was seen.
    """
    found = HeldOutPrompts(_distinct(choosing).head(count), _distinct(confirming).head(count), source)
    for name, examples in ((split, found.choose), (CONFIRM, found.confirm)):
        if not len(examples):
            raise UsageError(
                f"the split {name!r} of {source} holds no prompts; parts are chosen on some and confirmed "
                "on others: give more rows, or --prompts-file"
            )
    _check_unseen({split: found.choose.prompts, CONFIRM: found.confirm.prompts}, seen)
    return found


def divided(examples: Examples, count: int, source: str, seen: Seen = ()) -> HeldOutPrompts:
    """Divide prompts by their hash: even ones choose, odd ones confirm.

    Args:
        examples: held-out prompts with answers.
        count: at most so many prompts of each set.
        source: where they come from.
        seen: prompts that must not be among them, with what they were used for.

    Raises:
        UsageError: one of them was seen, or too few are left.
    """
    distinct = _distinct(examples)
    side = [hashlib.sha256(prompt.encode()).digest()[0] % 2 for prompt in distinct.prompts]
    halves = [distinct.picked([i for i, s in enumerate(side) if s == which]).head(count) for which in (0, 1)]
    if min(len(half) for half in halves) < 2:
        raise UsageError(
            f"{source} holds {len(distinct)} different prompts, too few to choose on some and confirm on others"
        )
    _check_unseen({CHOOSE: halves[0].prompts, CONFIRM: halves[1].prompts}, seen)
    return HeldOutPrompts(halves[0], halves[1], source)


def from_file(path: Path) -> Examples:
    """Read `{"prompt": …, "answer": …}` lines.

    Raises:
        ConfigError: the file is missing, or a line is no such object.
    """
    prompts: list[str] = []
    answers: list[str] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            prompt, answer = row["prompt"], row["answer"]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f'{path}:{number}: expected {{"prompt": …, "answer": …}}, got {line[:80]!r}') from error
        if not isinstance(prompt, str) or not isinstance(answer, str):
            raise ConfigError(f"{path}:{number}: prompt and answer must be text")
        prompts.append(prompt)
        answers.append(answer)
    return Examples(tuple(prompts), tuple(answers))


def check_apart(sets: Mapping[str, Iterable[str]]) -> None:
    """Check by hash that no prompt is in two sets.

    Raises:
        UsageError: naming the two sets and a prompt.
    """
    where: dict[bytes, str] = {}
    for name, prompts in sets.items():
        for prompt in set(prompts):
            key = hashlib.sha256(prompt.encode()).digest()
            if where.setdefault(key, name) != name:
                raise UsageError(
                    f"the prompt {prompt[:60]!r} is in `{where[key]}` and in `{name}`: a number measured on prompts "
                    "that "
                    "also made a decision is not held out; take it out of one of them"
                )


def _check_unseen(sets: Mapping[str, Sequence[str]], seen: Seen) -> None:
    check_apart(sets)
    # What was seen may well have been seen twice: an earlier stage's report is another task's training.
    for name, prompts in seen:
        check_apart({**sets, name: prompts})


def _distinct(examples: Examples) -> Examples:
    """Return the examples without repeated prompts: intervals count each prompt once."""
    first = {prompt: i for i, prompt in reversed(list(enumerate(examples.prompts)))}
    return examples.picked(sorted(first.values()))
