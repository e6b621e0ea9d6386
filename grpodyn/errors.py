"""Every exception that grpodyn raises on purpose.

GrpodynError
├── UsageError            the caller asked for something that makes no sense      (exit code 2)
│   ├── ConfigError       a run config or an option does not validate
│   ├── UnknownNameError  no probe, analysis, task … of that name
│   └── DirectoryInUseError  the run directory holds a run, or another writer has it
├── UnreadableError       a run or file cannot be read; says which and why        (exit code 3)
│   ├── NotARunError      the path holds no run
│   └── SchemaError       a run of another schema version, or a foreign store
├── MissingDataError      an analysis needs what the run does not hold            (exit code 3)
├── RegistryError         two files claim one name, or a plug-in breaks its contract
├── NameCollisionError    two parameters collapse into one canonical name
└── AdviceError           PEFT resolves a config differently from the plan

Each message holds the offending value, what was expected, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_FINDING = 1
EXIT_USAGE = 2
EXIT_UNREADABLE = 3


class GrpodynError(Exception):
    """Base of all errors that grpodyn raises on purpose."""

    exit_code = EXIT_UNREADABLE


class UsageError(GrpodynError):
    """The caller asked for something that makes no sense."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """A run config or an option does not validate."""


class UnknownNameError(UsageError):
    """Nothing is registered under that name."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Build the error with the closest known name as a suggestion."""
        names = sorted(known)
        return cls(f"unknown {kind} {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})")


class DirectoryInUseError(UsageError):
    """The run directory already holds a run, or another process writes to it."""


class UnreadableError(GrpodynError):
    """A run or file cannot be read."""


class NotARunError(UnreadableError):
    """The path holds no run."""


class SchemaError(UnreadableError):
    """The store was written in a format that this version does not read."""


class MissingDataError(UnreadableError):
    """An analysis needs a measurement that the run does not hold."""


class RegistryError(GrpodynError):
    """A plug-in breaks the registry's contract."""


class NameCollisionError(GrpodynError):
    """Two different parameters collapse into one canonical name."""


class AdviceError(GrpodynError):
    """PEFT resolves a config differently from the plan that was meant."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or an empty string.

    >>> did_you_mean("grad_nrom", ["grad_norm", "delta_norm"])
    "; did you mean 'grad_norm'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
