"""What a recorder measures, and how often: the `record` section of a run config.

Cadences are in steps, not in time, so that two runs compare. A preset sets them by what a probe costs and needs, never
by its name: a probe added later falls into its place.
"""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from grpodyn import registry
from grpodyn.config.validation import StrictModel
from grpodyn.errors import UnknownNameError
from grpodyn.probe import COUNTS, OF_WINDOW, Need, Probe

Preset = Literal["light", "standard", "full"]
PRESETS: Final[tuple[Preset, ...]] = ("light", "standard", "full")

ON_REQUEST: Final = ("decomposition", "forward")
"""Cost classes of probes that only `full` measures unasked."""

ENDS_ONLY: Final = 0
"""The cadence of what is measured at the first and the last step alone."""

MEGABYTE: Final = 1 << 20


class RecordConfig(StrictModel):
    """Probes, cadence and memory limits of a recorder."""

    preset: Preset = "standard"
    probes: list[str] | None = None
    """Names of the probes to measure; null for all of them."""
    only: list[int | str] | None = None
    """Layers (by index), module types, or patterns of names: of the model, only these are recorded; null for all."""
    skip: list[int | str] = Field(default_factory=list)
    """The same, of what is not recorded."""
    every: dict[str, int] = Field(default_factory=dict)
    """Steps between measurements by probe, in place of the preset's; 0 is the first and the last step alone."""
    copy_limit: int = Field(default=256 * MEGABYTE, ge=0)
    """Bytes of copies of the weights before a step; larger models are sampled by rows."""
    snapshot_limit: int = Field(default=64 * MEGABYTE, ge=1)
    """Bytes of weight differences that wait for their spectrum at one time."""
    final_seconds: float = Field(default=120.0, ge=0.0)
    """Seconds that the end of training waits for the spectra of its last step; what is left then is not measured."""
    base_limit: int = Field(default=2048 * MEGABYTE, ge=0)
    """Bytes of starting weights saved in the run where no checkpoint holds them."""
    singular_values: int = Field(default=16, ge=1)
    """Leading singular values stored per matrix."""
    spectra_embeddings: bool = False
    """Whether embeddings and heads get a spectrum too: theirs cost more than all layers together."""
    decomposition_limit: int = Field(default=1024, ge=1)
    """Matrices whose smaller side is longer get no singular vectors: the cost grows with its cube."""
    activation_prompts: list[str] | None = None
    """Prompts that `activation_shift` is measured on; null for the first four of the first generation batch."""
    activation_limit: int = Field(default=64 * MEGABYTE, ge=1)
    """Bytes of block outputs held for it; what does not fit is cut off the prompts."""
    save_completions: int = Field(default=0, ge=0)
    """Save the sampled prompts and completions of every so many generation batches as parquet; 0 for none."""
    mirror: bool = False
    """Also hand a few scalars to the trainer's loggers (`report_to`: TensorBoard, W&B, trackio)."""

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        for name in [*(self.probes or []), *self.every]:
            try:
                registry.probe(name)
            except UnknownNameError as error:
                raise ValueError(str(error)) from error
        for name, steps in self.every.items():
            if steps < 0:
                raise ValueError(f"every.{name} is {steps}: a number of steps, or 0 for the first and the last step")
        return self

    def chosen(self) -> dict[str, Probe]:
        """Return the probes to measure, by name: those named, else those of the preset and those given a cadence."""
        if self.probes is not None:
            return {name: registry.probe(name) for name in self.probes}
        return {
            name: probe
            for name, probe in registry.probes().items()
            if name in self.every or preset_cadence(self.preset, probe) is not None
        }

    def cadence(self, probe: Probe) -> int:
        """Return the steps between two measurements of a probe; 0 for the first and the last step alone."""
        return self.every.get(probe.name, preset_cadence(self.preset, probe) or ENDS_ONLY)


def preset_cadence(preset: Preset, probe: Probe) -> int | None:
    """Return the steps between two measurements of a probe in a preset; 0 for the first and the last step alone.

    None for a probe that the preset leaves out: it costs more than all others together, or runs the model.
    """
    if probe.cost in ON_REQUEST and preset != "full":
        return None
    if probe.when == "ends":
        return ENDS_ONLY
    windowed = bool(probe.needs & OF_WINDOW)
    if preset == "full":
        # A window needs several steps, whatever they cost.
        return 25 if windowed else 1
    if probe.cost == "spectrum" or windowed:
        return ENDS_ONLY if preset == "light" else 25
    if preset == "light":
        return 5
    # A displacement reads the starting weights too, and changes slowly; a count takes a pass of its own.
    return 5 if Need.DELTA in probe.needs or probe.needs & COUNTS else 1


def cadence_text(steps: int | None) -> str:
    """Return a cadence in words.

    >>> [cadence_text(steps) for steps in (ENDS_ONLY, 1, 25, None)]
    ['at the first and the last step', 'every step', 'every 25 steps', 'on request']
    """
    if steps is None:
        return "on request"
    if steps == ENDS_ONLY:
        return "at the first and the last step"
    return "every step" if steps == 1 else f"every {steps} steps"


def due(cadence: int, step: int, *, first: int, last: int | None) -> bool:
    """Return whether something of that cadence is measured at `step`.

    >>> [step for step in range(1, 13) if due(5, step, first=1, last=12)]
    [1, 5, 10, 12]
    """
    return step in (first, last) or (cadence != ENDS_ONLY and step % cadence == 0)
