"""`grpodyn ablate`: trains the advised adapter against others, over seeds, at equal budgets (rung 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    target: Annotated[
        Path, typer.Argument(metavar="RUN|CONFIG", help="A recorded run, a run config, or a study (YAML).")
    ],
    arms: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Only these arms; --list-arms names them all.")
    ] = None,
    lora: Annotated[
        list[Path] | None,
        typer.Option(help="Train this adapter too, as an arm of its file's name; may be repeated."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Test seeds of each arm.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Steps of each training.")] = None,
    advice: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Put this adapter to the test: what `recommend-lora --json` printed."),
    ] = None,
    max_fraction: Annotated[
        float | None, typer.Option(metavar="F", help="Size of the tested adapter, at most, of all-linear at its rank.")
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", help="Rank of the advised adapter.")] = None,
    no_tuning: Annotated[
        bool, typer.Option("--no-tuning", help="Train every arm at its rule's learning rate only.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Replace one value of the run config, as key=value.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes that train side by side; default 1, or one a GPU.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="0,1,…", help="GPUs to hand out, one a process; `none` for the CPU.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Torch threads of each.")] = None,
    max_minutes: Annotated[float | None, typer.Option(metavar="M", help="Stop by then; to go on, start again.")] = None,
    merge: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Take over results.jsonl of others; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where results go; default beside the run.")
    ] = None,
    only_read: Annotated[bool, typer.Option("--only-read", help="Train nothing; say what is known.")] = False,
    list_arms: Annotated[bool, typer.Option("--list-arms", help="Name the arms and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Put advice to the test: train the advised adapter and its rivals, over seeds, at equal budgets.

    Every arm gets the same tuning, arms are compared on prompts that decided nothing, and every finished training is
    kept: stopped at any moment and started again, the ablation goes on. `recommend-lora` then stands on rung 3.

    Examples:

    grpodyn ablate runs/full --arms advised,all-linear,all-linear-same-budget,random-same-budget

    grpodyn ablate configs/studies/lora_advice.yaml --workers 2 --threads 1 --max-minutes 60

    grpodyn ablate configs/studies/placement-1p5b/gsm8k.yaml --gpus 0,1,2,3,4,5,6,7
    """
    from rich.console import Console

    from grpodyn.ablation.protocol import ARMS

    if list_arms:
        for name, what in ARMS.items():
            typer.echo(f"{name:<24} {what}")
        return
    from grpodyn.ablation.target import Wishes, find
    from grpodyn.cli.ablation_view import AblationView, show
    from grpodyn.cli.lookup import find_run
    from grpodyn.studies.slots import NO_GPUS, chosen_gpus
    from grpodyn.trace import strict_json

    # Without the option torch finds what there is.
    devices = ("",) if gpus == NO_GPUS else chosen_gpus(gpus) if gpus is not None else ()
    console = Console(stderr=as_json)
    view = AblationView(console)
    wishes = Wishes(
        arms=None if arms is None else [name.strip() for name in arms.split(",") if name.strip()],
        seeds=seeds,
        steps=steps,
        settings=tuple(settings or ()),
        adapters={path.stem: str(path) for path in lora or []},
        advice=advice,
        max_fraction=max_fraction,
        rank=rank,
        tune=not no_tuning,
        output=output,
    )
    meant = target if target.suffix in (".yaml", ".yml") else find_run(target)
    found, results_in = find(meant, wishes, view.say)

    # Seconds of imports: only now, when everything that can be checked without them has been.
    from grpodyn.ablation.runner import Limits, carry_out

    limits = Limits(workers or max(1, len(devices)), threads, devices, max_minutes, train=not only_read)
    try:
        finished = carry_out(found, limits, view, results_in=results_in, merge=merge or [])
    except KeyboardInterrupt:
        view.close()
        typer.echo("grpodyn: stopped; what was finished is kept, and the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    finally:
        view.close()
    if finished.result is None:
        typer.echo(f"grpodyn: {finished.why}; the same command goes on from there", err=True)
        raise typer.Exit(130)
    if as_json:
        typer.echo(strict_json.dumps(finished.result.to_json(), indent=2))
    else:
        show(console, finished.result)
    if finished.result.missing:
        typer.echo(
            f"{finished.why}: {finished.result.missing} trainings are still to be done; the same command goes on",
            err=True,
        )
