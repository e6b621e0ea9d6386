"""Prompts that no task has."""

from __future__ import annotations

from grpodyn.tasks import Examples


def from_lines(count: int, start: int = 0) -> Examples:
    prompts = tuple(f"{10 + (start + i) % 90}+{10 + (start + i) // 90}=" for i in range(count))
    return Examples(prompts, ("7",) * count)
