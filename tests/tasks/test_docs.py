"""docs/tasks.md names every task and every option."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.tasks import task_names
from grpodyn.tasks.catalogue import option_names

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()


@pytest.mark.parametrize("name", task_names())
def test_every_task_and_option_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert [option for option in option_names(name) if f"`{option}`" not in PAGE] == []
