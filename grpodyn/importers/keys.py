"""What trainers call things: the keys of other producers and versions, and the canonical name of each.

The canonical names are those of TRL 1.16, so that an imported run reads like a recorded one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

CANONICAL = frozenset(
    {
        "loss", "grad_norm", "learning_rate", "num_tokens", "epoch", "reward", "reward_std", "frac_reward_zero_std",
        "kl", "entropy", "step_time", "policy_loss", "aux_loss",
        *(f"completions/{which}_length" for which in ("mean", "min", "max")),
        *(f"completions/{which}_terminated_length" for which in ("mean", "min", "max")),
        "completions/clipped_ratio", "cispo_clip_ratio",
        *(f"clip_ratio/{which}" for which in ("low_mean", "low_min", "high_mean", "high_max", "region_mean")),
        *(f"sampling/sampling_logp_difference/{which}" for which in ("mean", "max")),
        *(f"sampling/importance_sampling_ratio/{which}" for which in ("min", "mean", "max")),
    }
)  # fmt: skip
"""Scalars with a meaning of their own in TRL 1.16, beside `rewards/<function>/mean` and `/std`."""

CLOSING = frozenset({"train_runtime", "train_loss", "train_samples_per_second", "train_steps_per_second", "total_flos"})
"""Keys of the summary that closes a transformers log."""

# Canonical -> other names of the same quantity, the better one first where a log holds several.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "loss": ("training loss", "actor/pg_loss", "policy_loss", "act_loss", "pg"),
    "reward": (
        "rewards/mean", "mean_reward", "reward/mean", "critic/score/mean", "critic/rewards/mean",
        "env/all/reward/total", "reward_mean", "avg_reward", "rm", "reward_trace",
    ),
    "reward_std": ("group_reward_std", "rewards/std", "reward/std"),
    "frac_reward_zero_std": ("zvf", "frac_zero_std", "zero_variance_fraction"),
    "entropy": ("actor/entropy", "actor/entropy_loss", "entropy_loss", "optim/entropy", "policy/entropy"),
    "kl": ("actor/kl_loss", "objective/kl", "kl_loss", "kl_divergence"),
    "grad_norm": ("actor/grad_norm", "actor_grad_norm", "optim/grad_norm", "gradient_norm"),
    "learning_rate": ("actor/lr", "actor_lr", "act_lr", "optim/lr", "lr"),
    "completions/mean_length": (
        "completion_length", "response_length/mean", "response_length", "glen", "gen_len", "mean_length",
        "env/all/ac_tokens_per_turn", "completion length",
    ),
    "completions/max_length": ("response_length/max", "max_completion_length_seen"),
    "completions/min_length": ("response_length/min",),
    "completions/clipped_ratio": (
        "clipped_completions_ratio", "response_length/clip_ratio", "response_clip_ratio", "truncated",
        "clipped_ratio", "truncation_rate",
    ),
    "completions/mean_terminated_length": ("mean_terminated_length",),
    "clip_ratio/region_mean": ("clip_ratio", "actor/pg_clipfrac", "ppo_clip_ratio", "clip_fraction"),
    "step_time": ("timing_s/step", "time/total", "timing/step_total"),
    "sampling/sampling_logp_difference/mean": (
        "training/rollout_probs_diff_mean", "logprobs_diff", "rollout_corr/log_ppl_abs_diff",
    ),
    "sampling/sampling_logp_difference/max": ("training/rollout_probs_diff_max",),
    "sampling/importance_sampling_ratio/mean": ("rollout_corr/rollout_is_mean", "mismatch/rollout_is_mean"),
    "num_tokens": ("num_input_tokens_seen", "training/total_tokens"),
    "epoch": ("training/epoch", "progress/epoch"),
}  # fmt: skip

# Canonical -> keys whose complement it is.
_COMPLEMENTS: Mapping[str, tuple[str, ...]] = {
    "frac_reward_zero_std": ("env/all/by_group/frac_mixed", "frac_mixed"),
}

STEP_KEYS = (
    "train/global_step",
    "global_step",
    "training/global_step",
    "global_step/max_steps",
    "trainer/global_step",
    "step",
    "steps",
    "iteration",
    "iter",
    "progress/batch",
    "_step",
)
"""Where the optimizer step stands, the best first. A tracker's own `_step` counts its calls."""
TIME_KEYS = ("_timestamp", "timestamp", "wall_time", "time")

_EVALUATION = re.compile(r"^(eval|val|val-core|val-aux|test|validation|heldout)([/_])")
_REWARD = re.compile(r"^rewards?/(?P<function>.+?)(?P<what>/mean|/std)?$")
_KNOWN_PREFIXES = ("env/", "rewards/", "tools/", "sampling/", "clip_ratio/", "completions/", "vespo/")


@dataclass(frozen=True)
class Names:
    """How the keys of one log map to canonical names."""

    canonical: Mapping[str, str]
    """own key -> name in the run."""
    complement: frozenset[str]
    """Own keys whose value is one minus the canonical one's."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """own key -> canonical name, where they differ."""
    unresolved: tuple[str, ...] = ()
    """Keys that no trainer known here writes; kept under their own names."""


# A log asks for the same few names in every row.
@lru_cache(maxsize=8192)
def tidy(key: str) -> str:
    """Return a key without what trackers and tables put around it.

    >>> tidy("train/completions / mean_length"), tidy("Training Loss")
    ('completions/mean_length', 'Training Loss')
    """
    plain = re.sub(r"\s*/\s*", "/", key.strip())
    return plain.removeprefix("train/") if plain not in ("train/global_step",) else plain


@lru_cache(maxsize=8192)
def is_evaluation(key: str) -> bool:
    """Return whether a key is of a held-out evaluation.

    >>> is_evaluation("eval_reward"), is_evaluation("val-core/gsm8k/acc/mean@1"), is_evaluation("evals")
    (True, True, False)
    """
    return _EVALUATION.match(tidy(key)) is not None


@lru_cache(maxsize=8192)
def is_resolved(key: str) -> bool:
    """Return whether a key has a canonical name, or is of an evaluation."""
    plain = tidy(key)
    return _claim(plain)[0] is not None or is_evaluation(plain)


@cache
def _reverse() -> dict[str, tuple[str, int, bool]]:
    """Own name (lower case) -> canonical name, place among its aliases, whether it is the complement."""
    found = {alias: (name, place, False) for name, aliases in _ALIASES.items() for place, alias in enumerate(aliases)}
    found |= {alias: (name, 100 + p, True) for name, others in _COMPLEMENTS.items() for p, alias in enumerate(others)}
    return found


def names_of(keys: Iterable[str]) -> Names:
    """Return the canonical name of each key of a log; of several keys for one name the better one gets it.

    >>> names = names_of(["critic/score/mean", "critic/rewards/mean", "actor/kl_loss", "my_metric"])
    >>> names.canonical["critic/score/mean"], names.canonical["critic/rewards/mean"], names.unresolved
    ('reward', 'critic/rewards/mean', ('my_metric',))
    """
    # A key that every trainer writes under its canonical name outranks an alias.
    claims: dict[str, tuple[tuple[int, bool], str, bool]] = {}
    own: dict[str, str] = {}
    unresolved: list[str] = []
    for key in dict.fromkeys(keys):
        plain = tidy(key)
        own[key] = plain
        name, place, complement = _claim(plain)
        if name is None:
            if not _is_known(plain):
                unresolved.append(key)
            continue
        rank = (place, key != name)
        if name not in claims or rank < claims[name][0]:
            claims[name] = (rank, key, complement)
    winners = {key: (name, complement) for name, (_, key, complement) in claims.items()}
    taken = {name for name, _ in winners.values()}
    canonical: dict[str, str] = {}
    for key, plain in own.items():
        name = winners[key][0] if key in winners else plain
        # A loser keeps its own name, and two own names that tidy to one are kept apart.
        unique = name if key in winners or name not in taken else key
        canonical[key] = unique if unique not in canonical.values() else key
    renamed = {key: name for key, name in canonical.items() if name != key}
    return Names(canonical, frozenset(key for key, (_, c) in winners.items() if c), renamed, tuple(unresolved))


def _claim(plain: str) -> tuple[str | None, int, bool]:
    if plain in CANONICAL:
        return plain, -1, False
    lower = plain.lower()
    if lower in CANONICAL:
        return lower, 0, False
    if lower in _reverse():
        return _reverse()[lower]
    match = _REWARD.match(plain)
    if match and match["function"] not in ("mean", "std"):
        what = match["what"] or "/mean"
        return f"rewards/{match['function']}{what}", 0 if match["what"] else 1, False
    return None, 0, False


def _is_known(plain: str) -> bool:
    if plain in CLOSING or is_evaluation(plain):
        return True
    return plain.startswith(_KNOWN_PREFIXES)
