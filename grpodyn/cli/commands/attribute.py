"""`grpodyn attribute`: where a run's change is stored, by putting parts of it back and evaluating."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Run directory; leave out with --base and --final.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Checkpoint that training started from.", show_default=False)
    ] = None,
    final: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Trained weights, or a LoRA adapter.", show_default=False)
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Task whose held-out prompts are used.")] = None,
    prompts_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Held-out prompts instead: lines of {"prompt": …, "answer": …}.'),
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="What parts are chosen on; of a dataset, the held-out split.")
    ] = "choose",
    prompts: Annotated[int, typer.Option(metavar="N", min=20, help="Prompts an evaluation.")] = 500,
    samples: Annotated[
        int | None,
        typer.Option(metavar="K", help="Sample K ≥ 4 completions a prompt, even where the task has exact answers."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Longest sampled completion; as trained if not given.")
    ] = None,
    max_evaluations: Annotated[int | None, typer.Option(metavar="N", help="Make at most N evaluations.")] = None,
    backend: Annotated[Literal["hf", "vllm"], typer.Option(help="What evaluates; vllm needs a GPU.")] = "hf",
    ranks: Annotated[
        str, typer.Option(metavar="1,2,…", help="Ranks to truncate every change to; empty for none.")
    ] = "1,2,4,8,16",
    shapley: Annotated[int, typer.Option(metavar="N", min=0, help="Shapley values of the N leading parts.")] = 3,
    random_draws: Annotated[
        int, typer.Option(metavar="N", min=0, help="Draws of the same change in random directions.")
    ] = 1,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="Of the evaluated model; as trained if not given.", show_default=False),
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Prompts a forward pass.")] = 256,
    seed: Annotated[int, typer.Option(metavar="N", help="Of sampling and of random directions.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where the result goes; RUN if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Find where a run's change is stored: keep or put back one part at a time, and evaluate on held-out prompts.

    Nothing is trained. What it costs is said before it starts; stopped and started again, it goes on where it was.

    Example: grpodyn attribute runs/full
    """
    from grpodyn.cli.lookup import find_run
    from grpodyn.errors import UsageError

    if run is None and (base is None or final is None):
        raise UsageError("give a RUN, or both --base DIR and --final DIR")
    if run is None and task is None and prompts_file is None:
        raise UsageError("without a RUN, the prompts must be named: --task NAME or --prompts-file FILE")
    run = None if run is None else find_run(run)
    folder = output if output is not None else run if run is not None else Path.cwd()
    try:
        from grpodyn.attribution.request import Request, carry_out
        from grpodyn.cli.attribution_view import Live, show
    except ModuleNotFoundError as error:
        raise UsageError(
            f"attribution evaluates a model, and {error.name!r} is not installed: pip install 'grpodyn[train]'"
        ) from error
    request = Request(
        run=run,
        base=base,
        final=final,
        task=task,
        prompts_file=prompts_file,
        split=split,
        prompts=prompts,
        samples=samples,
        max_tokens=max_tokens,
        most=max_evaluations,
        backend=backend,
        ranks=_ranks(ranks),
        leading=shapley,
        null_draws=random_draws,
        dtype=dtype,
        batch_size=batch_size,
        seed=seed,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with Live() as live:
        try:
            found = carry_out(request, folder, live.watcher)
        except KeyboardInterrupt:
            live.stopped(folder)
            raise typer.Exit(130) from None
    if as_json:
        from grpodyn.attribution.result import dumps

        typer.echo(dumps(found), nl=False)
        return
    show(found, folder)


def _ranks(text: str) -> tuple[int, ...]:
    from grpodyn.errors import UsageError

    try:
        ranks = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        ranks = (0,)
    if any(rank < 1 for rank in ranks):
        raise UsageError(f"--ranks {text!r}: expected ranks from 1 with commas between them, such as 1,2,4")
    return ranks
