"""The catalogues of probes and analyses, made from the registry.

`python -m grpodyn.cli.catalogue` writes the docs page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

COSTS: Final[Mapping[str, str]] = {
    "norm": "one pass over the elements, on the training thread, shared by all probes of one need",
    "spectrum": "singular values of every matrix, on a thread of its own; cubic in the smaller side",
    "decomposition": "singular vectors of every matrix now and at the start, on that thread: several spectra",
    "forward": "the model runs on a few prompts, on the training thread",
}
"""What a probe of each cost class takes."""


@dataclass(frozen=True)
class ProbeEntry:
    """What a probe declares, with its cadence in each preset.

    In steps; 0 is the first and the last step alone, None a probe that the preset leaves out.
    """

    name: str
    title: str
    group: str
    dims: tuple[str, ...]
    unit: str
    dtype: str
    cost: str
    needs: tuple[str, ...]
    when: str
    reduction: str
    cadence: dict[str, int | None]
    reference: str


@dataclass(frozen=True)
class AnalysisEntry:
    """What an analysis declares."""

    name: str
    title: str
    requires: tuple[str, ...]
    reference: str


def probe_entries() -> list[ProbeEntry]:
    """Return every registered probe, by name."""
    from grpodyn import registry
    from grpodyn.config.record import PRESETS, preset_cadence

    return [
        ProbeEntry(
            name=name,
            title=probe.title,
            group=probe.group,
            dims=probe.dims,
            unit=probe.unit,
            dtype=probe.dtype,
            cost=probe.cost,
            needs=tuple(sorted(probe.needs)),
            when=probe.when,
            reduction=probe.reduction,
            cadence={preset: preset_cadence(preset, probe) for preset in PRESETS},
            reference=probe.reference,
        )
        for name, probe in registry.probes().items()
    ]


def analysis_entries() -> list[AnalysisEntry]:
    """Return every registered analysis, by name."""
    from grpodyn import registry

    return [
        AnalysisEntry(name=name, title=analysis.title, requires=analysis.requires, reference=analysis.reference)
        for name, analysis in registry.analyses().items()
    ]


def markdown() -> str:
    """Return the docs page of both catalogues."""
    from grpodyn.config.record import cadence_text

    lines = [
        "# Catalogue",
        "",
        "Made from the registry by `python -m grpodyn.cli.catalogue`; do not edit. `grpodyn probes` and `grpodyn",
        "analyses` print the same in a terminal, with `--json` for programs.",
        "",
        "## Probes",
        "",
        "A probe's name is the name of its array in the trace, in the group below. Unit 1 is dimensionless. Of a zero",
        "matrix every rank and norm is 0; of a matrix with NaN or Inf it is nan.",
    ]
    lines += ["", "What they cost, and how often each preset pays it:", "", *_cost_table()]
    for probe in probe_entries():
        presets = "; ".join(f"{preset}: {cadence_text(steps)}" for preset, steps in probe.cadence.items())
        needs = ", ".join(need.replace("_", " ") for need in probe.needs)
        lines += [
            "",
            f"### {probe.name}",
            "",
            f"{probe.title}.",
            "",
            f"- group `{probe.group}`, dims `({', '.join(probe.dims)})`, {probe.dtype}, unit {probe.unit}",
            f"- cost class: {probe.cost}; needs: {needs}; over ranks: {probe.reduction}",
            f"- {presets}",
            f"- reference: {probe.reference}",
        ]
    lines += ["", "## Analyses"]
    for analysis in analysis_entries():
        lines += [
            "",
            f"### {analysis.name}",
            "",
            f"{analysis.title}.",
            "",
            f"- requires: {', '.join(f'`{name}`' for name in analysis.requires) or 'nothing'}",
            f"- reference: {analysis.reference}",
        ]
    return "\n".join(lines) + "\n"


def _cost_table() -> list[str]:
    """Return a table of cost classes: what one takes, and the cadences of its probes in each preset."""
    from grpodyn.config.record import PRESETS, cadence_text

    lines = [f"| class | takes | {' | '.join(PRESETS)} |", f"|---|---|{'---|' * len(PRESETS)}"]
    for cost, takes in COSTS.items():
        probes = [probe for probe in probe_entries() if probe.cost == cost]
        cells = []
        for preset in PRESETS:
            # Most often first; the ends alone, and what is left out, last.
            found = sorted({probe.cadence[preset] for probe in probes}, key=lambda steps: steps or math.inf)
            cells.append("; ".join(cadence_text(steps) for steps in found))
        lines.append(f"| {cost} | {takes} | {' | '.join(cells)} |")
    return lines


def _write(
    path: Annotated[Path, typer.Argument(help="The page to write.")] = Path("docs/catalogue.md"),
) -> None:
    """Write the docs page of probes and analyses."""
    path.write_text(markdown(), encoding="utf-8")
    typer.echo(f"wrote {path}")


if __name__ == "__main__":
    typer.run(_write)
