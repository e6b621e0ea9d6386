"""The command that trains with other group sizes: what re-sampling cannot tell, a sweep does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpodyn.config.batching import batch_plan
from grpodyn.errors import ConfigError

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Sweep:
    """How to train with other group sizes, at the same completions a step."""

    sizes: tuple[int, ...]
    commands: tuple[str, ...]
    """Shell lines; empty where the run cannot be started by this program."""
    notes: tuple[str, ...]


def sweep(run: Run, recorded: int, wanted: Sequence[int] = (), seeds: Sequence[int] = SEEDS) -> Sweep:
    """Return the commands of a sweep over half, once and twice the recorded group size and the sizes wanted.

    TRL counts a batch in completions: at the same batch size, a larger group means fewer prompts a step and more steps
    an epoch, and a batch must hold whole groups. Sizes that do not fit are named and left out.
    """
    config = run.manifest.config
    grpo = run.manifest.section("grpo")
    rounded = [_next_that_fits(grpo, g) for g in wanted]
    candidates = sorted({g for g in (recorded // 2, recorded, 2 * recorded, *rounded) if g >= 2})
    if config is None:
        note = (
            "the run was started by a script of its own: train it with num_generations "
            f"{', '.join(map(str, candidates))}, at least {len(seeds)} seeds each, and give all runs to group-size"
        )
        return Sweep(tuple(candidates), (), (note,))
    fitting, notes = [], []
    for g in candidates:
        why = _refusal(grpo, g)
        if why is None:
            fitting.append(g)
        else:
            notes.append(f"G={g} is left out: {why}")
    path, name = str(run.path), str(run.path).rstrip("/")
    each = (
        f"for g in {' '.join(map(str, fitting))}; do for s in {' '.join(map(str, seeds))}; do "
        f"grpodyn record {shlex.quote(path)} --set grpo.num_generations=$g --set seed=$s "
        f"--run-dir {shlex.quote(name)}-g$g-s$s; done; done"
    )
    steps = grpo.get("max_steps")
    if isinstance(steps, int) and steps > 0:
        notes.append(f"every size trains {steps} steps of as many completions: larger groups see fewer prompts")
    else:
        notes.append("the length is set in epochs: larger groups take more steps, and more completions in all")
    commands = (each, f"grpodyn group-size {shlex.quote(name)}-g*-s*")
    return Sweep(tuple(fitting), commands if len(fitting) > 1 else (), tuple(notes))


def _refusal(grpo: Mapping[str, Any], g: int) -> str | None:
    try:
        batch_plan({**grpo, "num_generations": g})
    except ConfigError as error:
        return str(error)
    return None


def _next_that_fits(grpo: Mapping[str, Any], g: int) -> int:
    """Return the smallest group size from `g` to its double that a batch holds whole; `g` itself if there is none."""
    return next((size for size in range(g, 2 * g + 1) if _refusal(grpo, size) is None), g)
