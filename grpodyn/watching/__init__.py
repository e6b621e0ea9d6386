"""Follows a run while it is written: what is new is read, what it means is told."""

from __future__ import annotations

from grpodyn.watching.follower import Follower
from grpodyn.watching.snapshot import GroupShares, Mover, Snapshot

__all__ = ["Follower", "GroupShares", "Mover", "Snapshot"]
