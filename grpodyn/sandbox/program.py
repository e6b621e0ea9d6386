"""What is to be judged: a program and its tests."""

from __future__ import annotations

from dataclasses import dataclass

from grpodyn.errors import ConfigError


@dataclass(frozen=True)
class StdioCase:
    """A test of a program that reads standard input and prints."""

    given: str
    printed: str
    """Compared line by line, without the blanks at line ends and without empty lines at the end."""


@dataclass(frozen=True)
class Program:
    """Source text that nobody has read, and how it is judged.

    Raises:
        ConfigError: nothing to judge it by.
    """

    code: str
    tests: tuple[str, ...] = ()
    """Python statements, each a test of its own, such as `assert gcd(12, 8) == 4`; they call what `code` defines."""
    setup: str = ""
    """Run before every test, in the process of the tests: imports, or a `check(candidate)`."""
    cases: tuple[StdioCase, ...] = ()

    def __post_init__(self) -> None:
        if not self.tests and not self.cases:
            raise ConfigError("a program without tests cannot be judged; give `tests` or `cases`")
