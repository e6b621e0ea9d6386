"""Which split a prompt belongs to, decided by its SHA-256 alone, so that it never changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from grpodyn.tasks.task import SPLITS, Examples, Split

HELD_OUT_TENTHS: dict[int, Split] = {0: "choose", 1: "confirm", 2: "report"}
"""Which tenth of the hash range goes where; the other seven are `train`."""


def split_of(prompt: str) -> Split:
    """Return the split that a prompt belongs to: a function of its SHA-256 alone, so that it never changes."""
    tenth = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:8], "big") % 10
    return HELD_OUT_TENTHS.get(tenth, "train")


def split_all(answers: Mapping[str, str]) -> dict[Split, Examples]:
    """Return prompts and their answers by split, in an order that depends on nothing but the prompts.

    It is not the order in which the prompts were made, so that the first n examples of a split are a fair sample of it.

    >>> {split: len(found) for split, found in split_all({f"{a}+{b}=": "" for a in range(9) for b in range(9)}).items()}
    {'train': 66, 'choose': 7, 'confirm': 4, 'report': 4}
    """
    members: dict[Split, list[str]] = {split: [] for split in SPLITS}
    for prompt in sorted(answers, key=hash_order):
        members[split_of(prompt)].append(prompt)
    return {
        split: Examples(tuple(prompts), tuple(answers[prompt] for prompt in prompts))
        for split, prompts in members.items()
    }


def hash_order(prompt: str) -> str:
    """Return what prompts are sorted by: nothing but the prompt decides it, and it says nothing of the split."""
    return hashlib.sha256(f"order:{prompt}".encode()).hexdigest()
