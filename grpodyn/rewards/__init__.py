"""Reward functions in TRL's signature, found by name or by `module:function`."""

from __future__ import annotations

from grpodyn.rewards.catalogue import RewardContext, reward, reward_names
from grpodyn.rewards.known import KNOWN, Known, RewardFunction

__all__ = ["KNOWN", "Known", "RewardContext", "RewardFunction", "reward", "reward_names"]
