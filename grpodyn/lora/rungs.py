"""The evidence that a run directory holds beside its trace, and how far up the ladder it reaches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grpodyn.ablation import results
from grpodyn.ablation.results import Ablation, ArmResult
from grpodyn.lora import stored
from grpodyn.lora.stored import Stored

MOVEMENT, PATCH, ABLATION = 1, 2, 3

RUNG_NAMES = {
    MOVEMENT: "movement alone",
    PATCH: "a patch test of this run",
    ABLATION: "an ablation: adapters trained against each other",
}


@dataclass(frozen=True)
class Ladder:
    """What was tested of a run."""

    patch: Stored | None
    ablation: Ablation | None

    @property
    def arm(self) -> ArmResult | None:
        """The trained adapter that an ablation supports."""
        return self.ablation.best_supported if self.ablation is not None else None

    def rung(self, *, fits_arm: bool) -> int:
        """Return the highest rung; an arm that the caller's budget does not allow is no support."""
        if self.arm is not None and self.arm.lora is not None and fits_arm:
            return ABLATION
        return PATCH if self.patch is not None else MOVEMENT


def of_run(run_dir: Path, highest: int = ABLATION) -> Ladder:
    """Return what a run directory holds, up to a rung.

    Raises:
        SchemaError: a file is damaged or of another version.
    """
    patch = stored.of_run(run_dir) if highest >= PATCH else None
    tried = highest >= ABLATION and (run_dir / results.FILE).is_file()
    return Ladder(patch, results.load(run_dir) if tried else None)
