"""What came of judging a program."""

from __future__ import annotations

from dataclasses import dataclass

PASSED = ""


@dataclass(frozen=True)
class TestResult:
    """One test."""

    __test__ = False  # a name that pytest would collect

    passed: bool
    why: str = PASSED
    """Why it failed, in a few words; empty where it passed."""


@dataclass(frozen=True)
class Outcome:
    """One program."""

    parses: bool
    """Whether it is Python at all."""
    branches: int
    """Decision points of its syntax tree plus one (McCabe 1976); 0 for what does not parse."""
    results: tuple[TestResult, ...]
    """One a test, in the order of the program's tests and then its cases."""

    @property
    def passed(self) -> int:
        """Number of tests that passed."""
        return sum(result.passed for result in self.results)

    @property
    def all_passed(self) -> bool:
        """Whether every test passed."""
        return self.passed == len(self.results)
