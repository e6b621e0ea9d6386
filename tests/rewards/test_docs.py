"""docs/rewards.md names every reward and every option."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.rewards import KNOWN

PAGE = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text()


@pytest.mark.parametrize("name", KNOWN)
def test_every_reward_and_option_is_documented(name: str) -> None:
    assert f"| `{name}` |" in PAGE
    assert [option for option in KNOWN[name].options if f"`{option}`" not in PAGE] == []
