"""`grpodyn power`: how large a comparison must be, and what a finished one could have seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from grpodyn.cli.text import literal


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN…]", help="Runs whose noise counts; seeds of one config are pooled."),
    ] = None,
    difference: Annotated[float, typer.Option(help="Difference in accuracy that is claimed, or that matters.")] = 0.05,
    base: Annotated[float | None, typer.Option(help="Accuracy of the first arm, where no run is given.")] = None,
    prompts: Annotated[int | None, typer.Option(help="Held-out prompts; default the run's.")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Sampled answers a prompt; 0 where chances are computed exactly.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trained runs an arm; default as many as are given.")] = None,
    seed_spread: Annotated[
        float | None, typer.Option("--seed-spread", help="Standard deviation of the accuracy over seeds.")
    ] = None,
    between: Annotated[
        float, typer.Option(help="With --base: share of an answer's variance that lies between prompts.")
    ] = 0.5,
    correlation: Annotated[float, typer.Option(help="Of a prompt's solve rates in the two arms.")] = 0.0,
    level: Annotated[float, typer.Option(help="Confidence of the two-sided test.")] = 0.95,
    chance: Annotated[float, typer.Option(help="Chance with which the difference is to be seen.")] = 0.8,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say how many prompts, samples and seeds a difference needs, and the smallest that a comparison could have seen.

    Example: grpodyn power runs/full-s0 runs/full-s1 runs/full-s2 --difference 0.02
    """
    from grpodyn import registry
    from grpodyn.cli.lookup import find_runs
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    design = {"prompts": prompts, "samples": samples, "seeds": seeds, "seed_spread": seed_spread}
    risks = {"correlation": correlation, "level": level, "chance": chance}
    if runs:
        opened = [open_run(path) for path in find_runs(runs)]
        result = registry.analysis("power").run(opened[0], others=opened[1:], difference=difference, **design, **risks)
    else:
        result = _from_rates(base, difference, between, design, risks)
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
        return
    _show(result)


def _from_rates(base: float | None, difference: float, between: float, design: Any, risks: Any) -> Any:
    from grpodyn.arms.plan import plan
    from grpodyn.arms.planning import Design, noise_of_rates
    from grpodyn.errors import UsageError

    if base is None:
        raise UsageError("power needs runs whose noise counts, or --base ACCURACY of the first arm")
    chosen = Design(
        prompts=1000 if design["prompts"] is None else design["prompts"],
        samples=1 if design["samples"] is None else design["samples"] or None,
        seeds=1 if design["seeds"] is None else design["seeds"],
        correlation=risks["correlation"],
    )
    noise = noise_of_rates(base, difference, between, design["seed_spread"])
    basis = (
        f"accuracies {base:g} and {base + difference:g}; {between:.0%} of an answer's variance between prompts"
        + (" (assumed: it matters where a prompt is sampled more than once)" if chosen.samples != 1 else ""),
        "the spread of seeds is unknown and left out" if noise.seed is None else "the spread of seeds was given",
    )
    return plan(noise, chosen, difference, basis, risks["level"], risks["chance"])


def _show(result: Any) -> None:
    from rich.console import Console

    design, console = result.design, Console()
    sampled = "exact chances" if design.samples is None else f"{design.samples} samples a prompt"
    console.print(literal(f"{design.prompts} prompts, {sampled}, {design.seeds} seeds an arm:"))
    console.print(
        literal(
            f"  the smallest difference seen {result.chance:.0%} of the time is {result.smallest_seen:.4f} "
            f"(standard error {result.standard_error:.4f})"
        )
    )
    console.print(literal(f"to see {result.difference:+g} {result.chance:.0%} of the time at level {result.level:g}:"))
    console.print(f"  prompts: {_count(result.prompts_needed)}")
    if design.samples is not None:
        console.print(f"  or samples a prompt: {_count(result.samples_needed)}")
    if result.noise.seed is not None:
        console.print(f"  or seeds an arm: {_count(result.seeds_needed)}")
    for sentence in result.basis:
        console.print(literal(f"• {sentence}"))
    if design.seeds == 1 and result.noise.seed is None:
        console.print("• with one seed an arm, this is about these weights, not about training again")


def _count(number: int | None) -> str:
    return "no number is enough" if number is None else f"{number:,}"
