"""The groups of a run: which prompt each was of, when, what every completion earned, and whether it was right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpodyn.errors import MissingDataError, UnknownNameError

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run

Floats = NDArray[np.float64]

DECIMALS = 6
"""Rewards that agree so far are one value: what differs less gives advantages made of rounding."""
TOTAL = "total reward"
_SAYS_RIGHT = re.compile(
    r"acc|correct|exact|match|answer|solve|right|pass|verif|code_tests|multiple_choice|reasoning_gym", re.IGNORECASE
)
_SAYS_FORM = re.compile(r"format|xml|tag|length|style|syntax|valid", re.IGNORECASE)
"""An `answer_format` is no answer."""


@dataclass(frozen=True)
class Groups:
    """Whole groups of one size, in the order in which they were scored."""

    prompt: NDArray[np.int64]
    """(groups,): number of each group's prompt."""
    step: NDArray[np.int64]
    """(groups,): first update that the group feeds."""
    reward: Floats
    """(groups, G): total reward of each completion."""
    correct: NDArray[np.bool_] | None
    """(groups, G): which completions were right; None where nothing tells right from wrong."""
    outcome: str | None
    """What tells right from wrong: a reward function, or `TOTAL`."""
    left_out: int
    """Groups in which a completion was not scored."""
    notes: tuple[str, ...]

    @property
    def g(self) -> int:
        """Completions of a group."""
        return int(self.reward.shape[1])

    @property
    def right(self) -> NDArray[np.int64] | None:
        """(groups,): right completions of each group."""
        return None if self.correct is None else self.correct.sum(1)

    @property
    def total_follows_outcome(self) -> bool:
        """Whether a completion's total reward says no more and no less than whether it was right."""
        if self.correct is None or _values(self.reward) > 2:
            return False
        return bool((self.correct == _correct(self.reward)).all())

    def __len__(self) -> int:
        return len(self.prompt)

    def between(self, first: int | None, last: int | None) -> Groups:
        """Return the groups of the steps from `first` to `last`, both included; None leaves an end open.

        Raises:
            MissingDataError: there is none.
        """
        kept = np.ones(len(self), bool)
        if first is not None:
            kept &= self.step >= first
        if last is not None:
            kept &= self.step <= last
        if not kept.any():
            asked = f"from step {'the first' if first is None else first} to {'the last' if last is None else last}"
            raise MissingDataError(
                f"no group was scored {asked}; the run holds steps {self.step.min()} to {self.step.max()}"
            )
        correct = None if self.correct is None else self.correct[kept]
        return Groups(
            self.prompt[kept], self.step[kept], self.reward[kept], correct, self.outcome, self.left_out, self.notes
        )


def read(run: Run, outcome: str | None = None) -> Groups:
    """Return the groups that a run recorded.

    Right is what `outcome` says. Without it, of several reward functions, it is what the first says whose name speaks
    of being right and which takes two values, or one value (a task that is hopeless, or mastered); else what the first
    says that takes two values; else the total reward, if that takes two values.

    Args:
        run: the run.
        outcome: the reward function whose greatest value means right.

    Raises:
        MissingDataError: the run holds no rollouts, or no whole group.
        UnknownNameError: it has no reward function of that name.
    """
    run.require("rollouts")
    data = run.rollouts
    reward = np.asarray(data["reward"].values, np.float64)
    rows, prompts, g = reward.shape
    prompt = np.asarray(data["prompt_id"].values, np.int64).reshape(-1)
    step = np.repeat(np.asarray(data["step"].values, np.int64), prompts)
    names = [str(name) for name in data["reward_function"].values] if "reward_function" in data else []
    parts = np.full((rows * prompts, g, 0), np.nan)
    if names and "rewards" in data:
        parts = np.asarray(data["rewards"].values, np.float64).reshape(rows * prompts, g, len(names))
    reward = reward.reshape(-1, g)
    scored = np.isfinite(reward)
    whole = scored.all(1)
    if not whole.any():
        raise MissingDataError(f"{run.path} holds no group whose {g} completions were all scored; nothing to re-sample")
    name, values, notes = _outcome(outcome, names, reward[whole], parts[whole])
    return Groups(
        prompt=prompt[whole],
        step=step[whole],
        reward=reward[whole],
        correct=None if values is None else _correct(values),
        outcome=name,
        # A row that is nan throughout is no group: other batches had more prompts.
        left_out=int((scored.any(1) & ~whole).sum()),
        notes=tuple(notes),
    )


def _outcome(
    asked: str | None, names: Sequence[str], reward: Floats, parts: Floats
) -> tuple[str | None, Floats | None, list[str]]:
    if asked is not None:
        if asked not in names:
            raise UnknownNameError.among("reward function", asked, names)
        values = parts[:, :, list(names).index(asked)]
        if not np.isfinite(values).all():
            raise MissingDataError(f"the reward function {asked!r} did not score every completion; name another")
        return asked, values, []
    taken = {i: _values(parts[:, :, i]) for i in range(len(names)) if np.isfinite(parts[:, :, i]).all()}
    fitting = [i for i, values in taken.items() if values == 2]
    right = [i for i in taken if _SAYS_RIGHT.search(names[i]) and not _SAYS_FORM.search(names[i])]
    # All wrong, or all right, is an outcome too: the format reward beside it is none.
    chosen = next((i for values in (2, 1) for i in right if taken[i] == values), None)
    if len(names) < 2 or (chosen is None and not fitting):
        if _values(reward) <= 2:
            return TOTAL, reward, []
        return None, None, ["no reward takes two values, so nothing says which completions were right"]
    if chosen is None:
        chosen, said = fitting[0], "no name of a reward of one or two values speaks of being right"
    else:
        said = f"it gave every completion {parts[0, 0, chosen]:g}" if taken[chosen] == 1 else ""
    return names[chosen], parts[:, :, chosen], _on_choice(names, chosen, fitting, said)


def _on_choice(names: Sequence[str], chosen: int, fitting: Sequence[int], said: str) -> list[str]:
    """Return what is to be said of a choice that could have been another."""
    others = ", ".join(names[i] for i in fitting if i != chosen)
    if not (others or said):
        return []
    facts = ", ".join(["", said] if said else [])
    would = f"; {others} would do too: name one as the outcome" if others else "; name another as the outcome"
    return [f"right is what {names[chosen]} says{facts}{would}"]


def _values(rewards: Floats) -> int:
    """Return how many different rewards there are."""
    return len(np.unique(np.round(rewards, DECIMALS)))


def _correct(values: Floats) -> NDArray[np.bool_]:
    """Tell the completions with the greatest value; of a single value, positive is right."""
    rounded = np.round(values, DECIMALS)
    low, high = rounded.min(), rounded.max()
    return np.asarray(rounded == high if high > low else rounded > 0, np.bool_)
