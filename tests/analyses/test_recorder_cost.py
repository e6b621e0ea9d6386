"""What recording cost, from what the recorder measured of itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError
from grpodyn.trace.reader import Run


def test_totals_and_their_ratio(write_run: Callable[..., Run]) -> None:
    rows = {1: {"recorder_seconds": 0.5, "step_seconds": 10.0}, 2: {"recorder_seconds": 0.1, "step_seconds": 10.0}}
    found = registry.analysis("recorder_cost").run(write_run(metrics=rows))
    assert found.recorder == (0.5, 0.1)
    assert found.total_recorder == pytest.approx(0.6)
    assert found.share == pytest.approx(0.03)
    assert found.steps == (1, 2)


def test_a_run_that_was_imported_has_no_cost(write_run: Callable[..., Run]) -> None:
    with pytest.raises(MissingDataError, match="recorder_seconds"):
        registry.analysis("recorder_cost").run(write_run(metrics={1: {"reward": 1.0}}))
