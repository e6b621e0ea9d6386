"""What a sandboxed process may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from grpodyn.errors import ConfigError

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one sandboxed process; every one is enforced by the kernel or by the process that reads the pipe.

    Raises:
        ConfigError: a limit that is not positive.
    """

    test_seconds: float = 3.0
    """Wall time of one test, and of loading the program."""
    cpu_seconds: int = 10
    """CPU time of one process over all its tests."""
    memory_bytes: int = 512 * MIB
    """Address space of one process; a program may start `processes` of them."""
    processes: int = 4
    """Processes and threads alive at one time."""
    file_bytes: int = 4 * MIB
    """Size of one file."""
    scratch_bytes: int = 16 * MIB
    """The temporary folder, the only place that can be written."""
    open_files: int = 64
    message_bytes: int = MIB
    """A value returned by the program, or what a program prints that is judged by its output."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"sandbox limit {field.name} is {value!r}; give a number above 0")

    def to_dict(self) -> dict[str, float]:
        """Return the limits as plain JSON values."""
        return asdict(self)
