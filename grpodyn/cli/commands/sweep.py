"""`grpodyn sweep`: a study of several arms over seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from grpodyn.studies.expand import PlannedRun
    from grpodyn.studies.pool import Pool

RUNS = Path("runs")
LOCAL, RAY = "local", "ray"


def command(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (YAML) with a `sweep` section.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where runs go; default runs/NAME.")
    ] = None,
    arms: Annotated[str | None, typer.Option(metavar="A,B,…", help="Only these arms.")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Seeds of each arm.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Replace one value in every arm, as key=value; may be repeated.")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Runs that train side by side.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Torch threads of each.")] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="0,1,…", help="GPUs to hand out, one a run; `none` for the CPU.")
    ] = None,
    on: Annotated[str, typer.Option(help="Where to train: local, or ray.")] = LOCAL,
    address: Annotated[
        str | None, typer.Option("--address", help="Of a Ray cluster; without one, Ray starts on this machine.")
    ] = None,
    max_minutes: Annotated[float | None, typer.Option(metavar="M", help="Stop by then; to go on, start again.")] = None,
    only_read: Annotated[bool, typer.Option("--only-read", help="Train and write nothing; say what is known.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only list the runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Train a config in several arms over seeds, and say what differs and how sure that is.

    Every run is an ordinary run directory. Stopped at any moment and started again, the sweep goes on, also inside a
    run. What fails is reported, and the other runs go on. The folder stands for its runs in report, compare, group-size
    and scaling-law.

    Examples:

    grpodyn sweep configs/studies/group_size.yaml --max-minutes 60

    grpodyn sweep study.yaml --seeds 1 --set grpo.max_steps=10

    grpodyn compare runs/group_size
    """
    from rich.console import Console

    from grpodyn.cli.sweep_view import SweepView, show
    from grpodyn.errors import EXIT_UNREADABLE, UsageError
    from grpodyn.studies.expand import planned_runs
    from grpodyn.studies.study import load_study, restricted
    from grpodyn.trace import strict_json

    if on not in (LOCAL, RAY):
        raise UsageError(f"--on {on}: expected {LOCAL} or {RAY}")
    named = None if arms is None else [name.strip() for name in arms.split(",") if name.strip()]
    wanted = restricted(load_study(study), arms=named, seeds=seeds)
    planned = planned_runs(wanted, study.parent, settings or [])
    folder = output or RUNS / wanted.name
    if plan:
        _list(planned, folder, wanted.minutes, as_json)
        return
    make_pool, count = _pool(planned, on, workers, threads, gpus, address)

    from grpodyn.studies.runner import carry_out

    console = Console(stderr=as_json)
    view = SweepView(console, count)
    if not only_read:
        view.say(f"{len(planned)} runs into {folder}, {count} at a time")
    try:
        finished = carry_out(
            wanted, planned, settings or [], folder, None if only_read else make_pool, view, max_minutes
        )
    except KeyboardInterrupt:
        view.close()
        typer.echo("grpodyn: stopped; the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    finally:
        view.close()
    result = finished.result
    if as_json:
        typer.echo(strict_json.dumps(result, indent=2))
    else:
        show(console, result)
        if not only_read:
            view.say(f"results: {folder / 'results.json'}")
    if result.missing:
        goes_on = "the command goes on without --only-read" if only_read else "the same command goes on"
        typer.echo(f"{finished.why}: {result.missing} runs are not done; {goes_on}", err=True)
    if result.failed:
        raise typer.Exit(EXIT_UNREADABLE)


def _pool(
    planned: list[PlannedRun],
    on: str,
    workers: int | None,
    threads: int | None,
    gpus: str | None,
    address: str | None,
) -> tuple[Callable[[], Pool], int]:
    """Return what makes the pool, and how many runs train at once."""
    from grpodyn.embedded.bases import BASES
    from grpodyn.errors import UsageError
    from grpodyn.studies.slots import chosen_gpus, divide, usable_cores

    small = all(run.config.model.path in BASES for run in planned)
    devices = () if all(run.config.grpo.get("use_cpu") for run in planned) else chosen_gpus(gpus)
    slots = divide(workers, threads, small=small, gpus=devices, cores=usable_cores())
    if on == RAY:
        from grpodyn.studies.ray_pool import RayPool

        share = slots[0]
        return lambda: RayPool(address, share.threads, 1 if share.gpu else 0, workers), workers or len(slots)
    if address is not None:
        raise UsageError(f"--address {address} is a Ray cluster's; add --on {RAY}")

    from grpodyn.studies.pool import LocalPool

    used = slots[: len(planned)]
    return lambda: LocalPool(used), len(used)


def _list(planned: list[PlannedRun], folder: Path, minutes: float | None, as_json: bool) -> None:
    from grpodyn.trace import strict_json

    if as_json:
        listed = [{"name": run.name, "arm": run.arm, "seed": run.seed, "run_dir": folder / run.name} for run in planned]
        typer.echo(strict_json.dumps({"folder": folder, "minutes": minutes, "runs": listed}, indent=2))
        return
    for run in planned:
        typer.echo(str(folder / run.name))
    said = "" if minutes is None else f", about {minutes:g} minutes on two cores"
    typer.echo(f"{len(planned)} runs{said}")
