"""The contract of an analysis: an opened run goes in, a frozen dataclass comes out.

An analysis neither plots nor prints. It lives in `analyses/<name>.py`; the file stem is its registered name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from grpodyn.trace.reader import Run


class Analysis(ABC):
    """What every analysis declares. Instances hold no state."""

    name: ClassVar[str]
    """Registered name; equals the file stem."""
    title: ClassVar[str]
    """One line for catalogues."""
    requires: ClassVar[tuple[str, ...]]
    """Probes (or `metrics:<key>`, `rollouts`, `evaluations`) that the run must hold."""
    reference: ClassVar[str]
    """Where the method comes from."""

    @abstractmethod
    def run(self, run: Run, **options: Any) -> Any:
        """Return a frozen dataclass of findings with units.

        Raises:
            MissingDataError: the run lacks a required measurement; the message names the probe and how to record it.
        """
