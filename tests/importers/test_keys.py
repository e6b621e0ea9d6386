"""Keys of other producers and versions get their canonical names; what is not known stays and is listed."""

from __future__ import annotations

import pytest

from grpodyn.importers.keys import is_evaluation, names_of

# What each generation of TRL logs, as its sources have it.
TRL_014 = ["completion_length", "rewards/accuracy_reward", "reward", "reward_std", "kl", "loss", "grad_norm"]
TRL_017 = ["completions/mean_length", "completions/clipped_ratio", "rewards/accuracy_reward/mean", "clip_ratio"]
TRL_116 = [
    "completions/mean_terminated_length",
    "frac_reward_zero_std",
    "entropy",
    "clip_ratio/region_mean",
    "num_tokens",
]


def test_generations_of_trl_meet_in_one_name() -> None:
    old = names_of(TRL_014)
    assert old.canonical["completion_length"] == "completions/mean_length"
    assert old.canonical["rewards/accuracy_reward"] == "rewards/accuracy_reward/mean"
    assert names_of(TRL_017).canonical["clip_ratio"] == "clip_ratio/region_mean"
    new = names_of(TRL_116)
    assert not new.renamed
    assert not old.unresolved
    assert not new.unresolved


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("actor/entropy_loss", "entropy"),
        ("actor/kl_loss", "kl"),
        ("critic/score/mean", "reward"),
        ("response_length/clip_ratio", "completions/clipped_ratio"),
        ("train/reward", "reward"),
        ("completions / mean_length", "completions/mean_length"),
        ("Training Loss", "loss"),
        ("env/all/reward/total", "reward"),
        ("glen", "completions/mean_length"),
        ("actor_lr", "learning_rate"),
    ],
)
def test_alias(key: str, name: str) -> None:
    assert names_of([key]).canonical[key] == name


def test_a_better_key_wins_and_the_other_keeps_its_name() -> None:
    names = names_of(["critic/rewards/mean", "critic/score/mean", "reward"])
    assert names.canonical["reward"] == "reward"
    assert names.canonical["critic/score/mean"] == "critic/score/mean"
    assert names.canonical["critic/rewards/mean"] == "critic/rewards/mean"


def test_complement_is_named_as_one() -> None:
    names = names_of(["env/all/by_group/frac_mixed"])
    assert names.canonical["env/all/by_group/frac_mixed"] == "frac_reward_zero_std"
    assert names.complement == {"env/all/by_group/frac_mixed"}


def test_unknown_keys_are_listed_and_kept() -> None:
    names = names_of(["reward", "my_secret_metric"])
    assert names.unresolved == ("my_secret_metric",)
    assert names.canonical["my_secret_metric"] == "my_secret_metric"


def test_no_two_keys_share_a_name() -> None:
    keys = ["train/reward", "reward", "Reward", "rewards/mean", "rm", "kl", "KL", "train/kl", "x", "train/x"]
    canonical = names_of(keys).canonical
    assert len(set(canonical.values())) == len(keys)


def test_evaluations_are_told_apart() -> None:
    assert is_evaluation("eval_reward")
    assert is_evaluation("val-core/openai/gsm8k/reward/mean@1")
    assert not is_evaluation("evaluation_time_budget_left".replace("evaluation", "evals"))
