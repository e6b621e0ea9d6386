"""Reward functions in TRL's signature, found by name or by `module:function`."""

from __future__ import annotations

from grpodyn.rewards.catalogue import RewardFunction, reward, reward_names

__all__ = ["RewardFunction", "reward", "reward_names"]
