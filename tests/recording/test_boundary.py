"""What watches a training raises nothing into it, and tells of each kind of failure once."""

from __future__ import annotations

import pytest

from grpodyn.recording.boundary import Boundary


def fails(error: Exception) -> None:
    raise error


def test_the_first_failure_of_a_kind_is_reported_and_all_are_counted() -> None:
    told: list[tuple[str, str]] = []
    boundary = Boundary(lambda where, why: told.append((where, why)))
    assert boundary.run("probe", lambda: 3) == 3
    for error in (ValueError("a"), ValueError("b"), OSError("c")):
        assert boundary.run("probe", fails, error) is None
    assert [(where, why.split(" (")[0]) for where, why in told] == [("probe", "ValueError: a"), ("probe", "OSError: c")]
    assert boundary.counts == {"probe": 3}


def test_a_report_that_fails_raises_nothing_either() -> None:
    told: list[str] = []

    def full(where: str, why: str) -> None:
        told.append(where)
        raise OSError("no space left")

    boundary = Boundary(full)
    assert boundary.run("spectra", fails, ValueError("a")) is None
    assert told == ["spectra"], "of its own failure it is not asked to tell"
    assert boundary.counts == {"spectra": 1, "the report of a failure": 1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_and_exits_pass_through(error: type[BaseException]) -> None:
    def interrupted() -> None:
        raise error

    with pytest.raises(error):
        Boundary(lambda where, why: None).run("probe", interrupted)
