"""Takes the rollouts of TRL's GRPOTrainer as they are scored. The only file that knows TRL's inner interface.

Tested with the versions in `TESTED_TRL`. Two ways, the first that fits is used, and `source` says which:

- `trainer`: `_generate_and_score_completions` and `_calculate_rewards` are wrapped on the trainer's instance.
- `reward_functions`: the entries of `trainer.reward_funcs` are wrapped, and advantages are computed again. Reward
  models and asynchronous functions pass unwrapped, and their rewards are missing.

Both take what the model generates while it trains, and nothing of evaluation.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from grpodyn.probe import FloatArray
from grpodyn.recording.boundary import Boundary

TESTED_TRL = ("1.16.0",)
"""Versions of TRL that the tests run on."""

_GENERATE = "_generate_and_score_completions"
_SCORE = "_calculate_rewards"
_SCORE_PARAMETERS = ["inputs", "prompts", "completions", "completion_ids_list"]
_EPSILON = 1e-4


@dataclass(frozen=True)
class Rollouts:
    """One generation batch: B completions, grouped by prompt."""

    prompts: list[Any]
    completions: list[Any]
    generations: int
    """Completions per prompt."""
    rewards: FloatArray
    """Shape (B, reward functions); nan where a function returned None."""
    reward: FloatArray
    """Weighted sum, shape (B,); nan where no function scored the completion."""
    length: FloatArray
    """Tokens, shape (B,)."""
    terminated: FloatArray
    """1 where the completion ended by itself, 0 where it was cut off; shape (B,)."""
    advantage: FloatArray
    """Shape (B,)."""

    def grouped(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of shape (B, …) as (prompt, generation, …)."""
        return values.reshape(-1, self.generations, *values.shape[1:])

    def prompt_ids(self) -> NDArray[np.int64]:
        """Return a stable number of each prompt, shape (prompt,)."""
        return np.array([prompt_id(prompt) for prompt in self.prompts[:: self.generations]], dtype=np.int64)

    def row(self) -> dict[str, NDArray[Any]]:
        """Return the batch as a row of the trace's group `rollouts`."""
        values = ("reward", "length", "terminated", "advantage", "rewards")
        return {"prompt_id": self.prompt_ids(), **{name: self.grouped(getattr(self, name)) for name in values}}


def prompt_id(prompt: Any) -> int:
    """Return a 63-bit number that a prompt's text (or list of messages) always has, in every run on every machine.

    >>> prompt_id("2+2=") == prompt_id("2+2="), prompt_id("2+2=") == prompt_id("2+3=")
    (True, False)
    """
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, ensure_ascii=False, default=str)
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:8], "big") >> 1


_NO_ROLLOUTS = ("SFTTrainer",)


class RolloutHooks:
    """Wraps what a trainer scores its completions with; `remove` restores it.

    Args:
        trainer: the trainer, of any class.
        boundary: runs the taking; what training itself raises passes through untouched.
        receive: gets each generation batch of training, before the trainer goes on.
    """

    def __init__(self, trainer: Any, boundary: Boundary, receive: Callable[[Rollouts], None]) -> None:
        self._trainer = trainer
        self._boundary = boundary
        self._receive = receive
        self._restore: list[Callable[[], None]] = []
        self._scored: dict[str, Any] = {}
        self.unwrapped: list[str] = []
        """Reward functions whose rewards cannot be seen."""
        self.source: Literal["trainer", "reward_functions"] | None = None
        """How rollouts are taken; None where the trainer has none."""
        self.expected = not any(kind.__name__ in _NO_ROLLOUTS for kind in type(trainer).__mro__)
        """Whether a trainer of this class could have some: one that learns given texts lacks nothing without."""
        if _fits(trainer):
            self.source = "trainer"
            self._wrap(_GENERATE, self._generating)
            self._wrap(_SCORE, self._scoring)
        elif isinstance(getattr(trainer, "reward_funcs", None), list) and hasattr(trainer, "num_generations"):
            self.source = "reward_functions"
            self._wrap_reward_functions()

    def remove(self) -> None:
        """Put back everything that was wrapped; what somebody else wrapped around it stays, and takes nothing more."""
        self._receive = _ignore
        while self._restore:
            self._restore.pop()()

    # The trainer's own methods.

    def _wrap(self, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        own = vars(self._trainer).get(name)
        original = getattr(self._trainer, name)
        wrapper = functools.wraps(original)(make(original))
        setattr(self._trainer, name, wrapper)

        def restore() -> None:
            if vars(self._trainer).get(name) is not wrapper:
                return
            if own is None:
                delattr(self._trainer, name)
            else:
                setattr(self._trainer, name, own)

        self._restore.append(restore)

    def _generating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate_and_score(*args: Any, **kwargs: Any) -> Any:
            training = bool(self._trainer.model.training)
            self._scored = {}
            output = original(*args, **kwargs)
            if training:
                self._boundary.run("rollouts", self._take, output)
            return output

        return generate_and_score

    def _scoring(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def calculate_rewards(inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
            rewards = original(inputs, prompts, completions, completion_ids_list)
            self._scored = {
                "prompts": list(prompts),
                "completions": list(completions),
                "ids": completion_ids_list,
                "rewards": rewards,
            }
            return rewards

        return calculate_rewards

    def _take(self, output: Any) -> None:
        prompts, ids = self._scored["prompts"], self._scored["ids"]
        generations = int(self._trainer.num_generations)
        if len(prompts) % generations:
            raise ValueError(
                f"this rank scored {len(prompts)} completions, which are no whole groups of {generations}: a group "
                "that spans ranks is not recorded"
            )
        # Rewards come gathered over ranks; prompts, completions and advantages are this rank's.
        rank = int(self._trainer.accelerator.process_index)
        own = slice(rank * len(prompts), (rank + 1) * len(prompts))
        rewards = _array(self._scored["rewards"])[own]
        advantages = _array(output["advantages"])
        if advantages.shape != (len(prompts),):
            advantages = np.full(len(prompts), np.nan)
        self._receive(
            Rollouts(
                prompts,
                self._scored["completions"],
                generations,
                rewards,
                total_reward(rewards, _weights(self._trainer, rewards.shape[1])),
                _lengths(ids, output),
                _terminated(self._trainer, ids),
                advantages,
            )
        )

    # The reward functions, one by one.

    def _wrap_reward_functions(self) -> None:
        functions: list[Any] = self._trainer.reward_funcs
        originals = list(functions)
        for i, function in enumerate(originals):
            if inspect.isfunction(function) and not inspect.iscoroutinefunction(function):
                functions[i] = self._rewarding(i, function)
            else:
                self.unwrapped.append(_name_of(self._trainer, i))
        wrapped = list(functions)

        def restore() -> None:
            for i, (original, wrapper) in enumerate(zip(originals, wrapped, strict=True)):
                if functions[i] is wrapper:
                    functions[i] = original

        self._restore.append(restore)

    def _rewarding(self, index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def reward(*args: Any, **kwargs: Any) -> Any:
            values = original(*args, **kwargs)
            if self._trainer.model.training:
                self._boundary.run("rollouts", self._note, index, values, kwargs)
            return values

        return reward

    def _note(self, index: int, values: Any, kwargs: dict[str, Any]) -> None:
        if not self._scored or self._scored["prompts"] != kwargs["prompts"]:
            self._scored = {"prompts": list(kwargs["prompts"]), "values": {}}
        values = [np.nan if value is None else float(value) for value in values]
        self._scored["values"][index] = np.asarray(values, dtype=np.float32).astype(np.float64)
        count = len(self._trainer.reward_funcs)
        if len(self._scored["values"]) < count - len(self.unwrapped):
            return
        prompts, ids = self._scored["prompts"], kwargs.get("completion_ids")
        rewards = np.full((len(prompts), count), np.nan)
        for i, column in self._scored["values"].items():
            rewards[:, i] = column
        self._scored = {}
        total = total_reward(rewards, _weights(self._trainer, count))
        generations = int(self._trainer.num_generations)
        unknown = np.full(len(prompts), np.nan)
        # A reward that cannot be seen changes the group's mean.
        advantage = unknown if self.unwrapped else advantages(total, generations, _scaling(self._trainer))
        length = unknown if ids is None else _lengths(ids, {})
        terminated = unknown if ids is None else _terminated(self._trainer, ids)
        self._receive(
            Rollouts(prompts, list(kwargs["completions"]), generations, rewards, total, length, terminated, advantage)
        )


def reward_names(trainer: Any) -> list[str]:
    """Return the names of a trainer's reward functions, as it logs them; repeated names are told apart."""
    names: list[str] = []
    for i in range(len(trainer.reward_funcs)):
        name = _name_of(trainer, i)
        names.append(name if name not in names else f"{name}#{i}")
    return names


def total_reward(rewards: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted sum over reward functions, leaving out what was not scored; nan where nothing was.

    >>> total_reward(np.array([[1.0, np.nan], [np.nan, np.nan]]), np.array([0.5, 2.0]))
    array([0.5, nan])
    """
    # In float32, as the trainer adds them.
    weighted = (rewards.astype(np.float32) * weights.astype(np.float32)).astype(np.float32)
    total = np.nansum(weighted, axis=1, dtype=np.float32).astype(np.float64)
    return np.where(np.isnan(rewards).all(axis=1), np.nan, total)


def advantages(reward: FloatArray, generations: int, scaling: Literal["group", "batch", "none"]) -> FloatArray:
    """Return GRPO's advantages: rewards less their group's mean, over the group's (or the batch's) standard deviation.

    Reference: Shao et al. 2024 (arXiv 2402.03300), section 4.1; the deviation is the sample's, as in TRL.

    Args:
        reward: shape (B,); nan where a completion could not be scored (its advantage is 0).
        generations: completions per prompt.
        scaling: what is divided by.

    >>> advantages(np.array([1.0, 0.0]), 2, "group").round(3)
    array([ 0.707, -0.707])
    """
    groups = reward.reshape(-1, generations)
    known = ~np.isnan(groups)
    count = known.sum(1, keepdims=True)
    mean = np.where(known, groups, 0.0).sum(1, keepdims=True) / np.maximum(count, 1)
    centred = groups - mean
    if scaling == "group":
        spread = np.where(known, centred, 0.0)
        centred = centred / (np.sqrt((spread**2).sum(1, keepdims=True) / np.maximum(count - 1, 1)) + _EPSILON)
    elif scaling == "batch":
        seen = reward[~np.isnan(reward)]
        centred = centred / ((seen.std(ddof=1) if len(seen) > 1 else 0.0) + _EPSILON)
    known_or_zero: FloatArray = np.nan_to_num(centred.reshape(-1), nan=0.0)
    return known_or_zero


def _ignore(_: Rollouts) -> None:
    """Take rollouts after the end."""


def _fits(trainer: Any) -> bool:
    score = getattr(trainer, _SCORE, None)
    if score is None or not callable(getattr(trainer, _GENERATE, None)):
        return False
    return list(inspect.signature(score).parameters) == _SCORE_PARAMETERS and hasattr(trainer, "num_generations")


def _array(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def _weights(trainer: Any, count: int) -> FloatArray:
    weights = getattr(trainer, "reward_weights", None)
    return np.ones(count) if weights is None else _array(weights)


def _scaling(trainer: Any) -> Literal["group", "batch", "none"]:
    scaling = getattr(trainer, "scale_rewards", "group")
    # A boolean in older versions of TRL.
    named: dict[Any, Literal["group", "batch", "none"]] = {"batch": "batch", "none": "none", False: "none"}
    return named.get(scaling, "group")


def _lengths(ids: Sequence[Sequence[int]], output: Any) -> FloatArray:
    tool_mask = output.get("tool_mask")
    lengths = np.array([len(completion) for completion in ids], dtype=np.float64)
    if tool_mask is None:
        return lengths
    # Tokens that tools returned were not generated by the model.
    mask = _array(tool_mask)
    return np.array([mask[i, : int(length)].sum() for i, length in enumerate(lengths)])


def _terminated(trainer: Any, ids: Sequence[Sequence[int]]) -> FloatArray:
    tokenizer = getattr(trainer, "_tokenizer", None) or trainer.processing_class
    ends = getattr(trainer, "eos_token_ids", None) or [tokenizer.eos_token_id]
    stops = {*ends, tokenizer.pad_token_id}
    return np.array([float(len(completion) > 0 and completion[-1] in stops) for completion in ids])


def _name_of(trainer: Any, index: int) -> str:
    names = getattr(trainer, "reward_func_names", None)
    if names is not None and index < len(names):
        return str(names[index])
    function = trainer.reward_funcs[index]
    return str(getattr(function, "__name__", type(function).__name__))
