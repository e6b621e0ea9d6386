"""`grpodyn pilot`: a short warm-up, advice from it, and the full run with the advised adapter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from grpodyn.ablation.pilot import Pilot


def command(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="Run config (YAML); without one, the embedded model.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="Where both trainings go; default runs/NAME-pilot.")
    ] = None,
    warmup: Annotated[float, typer.Option(metavar="F", help="Share of the run's steps that the warm-up takes.")] = 0.1,
    max_fraction: Annotated[
        float | None, typer.Option(metavar="F", help="At most this fraction of all-linear at the same rank.")
    ] = None,
    max_params: Annotated[int | None, typer.Option(metavar="N", help="At most N trainable parameters.")] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", help="Use this rank.")] = None,
    no_patch_test: Annotated[
        bool, typer.Option("--no-patch-test", help="Let the advice rest on movement alone.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Replace one value of the config, as key=value.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Train all linear layers briefly, ask that run where its change sits, and train the full run there.

    Or keep all linear layers, and say so, where a smaller adapter would save nothing. Stopped at any moment, the same
    command goes on.

    Example: grpodyn pilot config.yaml --run-dir runs/pilot
    """
    from rich.console import Console

    from grpodyn.config import run as run_config
    from grpodyn.lora.policy import Options
    from grpodyn.trace import strict_json

    chosen = run_config.load(config, settings or []) if config else run_config.embedded(settings or [])
    options = Options(rank=rank, max_params=max_params, max_fraction=max_fraction)
    folder = run_dir or Path("runs") / f"{config.stem if config else 'embedded'}-pilot"
    console = Console(stderr=as_json)

    from grpodyn.ablation.pilot import NotFinished, pilot
    from grpodyn.training.display import display_for

    try:
        found = pilot(chosen, folder, display_for(console), share=warmup, options=options, patch_test=not no_patch_test)
    except (NotFinished, KeyboardInterrupt):
        typer.echo("grpodyn: stopped; the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(strict_json.dumps(found.to_json(), indent=2))
        return
    for line in _lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _lines(found: Pilot) -> list[str]:
    lines = [
        found.decision,
        f"a step took {found.warm_up_step_seconds:.3g} s on all linear layers, {found.step_seconds:.3g} s in the run; "
        f"warm-up and advice cost {found.overhead_seconds:.0f} s",
    ]
    if found.keeps_all_linear:
        lines.append("nothing is saved: the run trains all linear layers, and the warm-up was the price of knowing")
    else:
        word = "saved" if found.net_seconds >= 0 else "lost"
        lines.append(f"{word} over {found.steps} steps, all paid: {abs(found.net_seconds):.0f} s")
    if found.before is not None and found.after is not None:
        lines.append(
            f"held-out accuracy {found.before.accuracy:.3f} → {found.after.accuracy:.3f} at T=1, "
            f"{found.before.greedy:.3f} → {found.after.greedy:.3f} greedily"
        )
    lines.append(f"whether the placement is worth anything: grpodyn ablate {found.run}")
    return lines
