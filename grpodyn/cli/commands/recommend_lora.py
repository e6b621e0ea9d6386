"""`grpodyn recommend-lora`: which LoRA config to train next, checked with PEFT before it is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    goal: Annotated[
        Literal["gain", "retention"] | None, typer.Option(help="What matters most: reward, or what the base could do.")
    ] = None,
    max_params: Annotated[int | None, typer.Option(metavar="N", help="At most N trainable parameters.")] = None,
    max_fraction: Annotated[
        float | None, typer.Option(metavar="F", help="At most this fraction of all-linear at the same rank.")
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", help="Use this rank.")] = None,
    rank_ladder: Annotated[
        str | None, typer.Option(metavar="8,16,…", help="Ranks that the inference server allows.")
    ] = None,
    method: Annotated[Literal["lora", "rslora", "dora"], typer.Option(help="Kind of adapter.")] = "lora",
    experts: Annotated[
        bool, typer.Option("--experts", help="Adapt stacked experts too (a mixture of experts), by target_parameters.")
    ] = False,
    apply: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG", help="Merge the advice into this run config (YAML, or a recorded run); needs -o."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the run config (with --apply) or PEFT's JSON here."),
    ] = None,
    keep_lr: Annotated[bool, typer.Option("--keep-lr", help="Leave the learning rate as it is.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say which LoRA config to train next, what that rests on, and what would settle it.

    The config is applied with PEFT to the model's twin (no weights, no network) and read back before it is printed.

    Example: grpodyn recommend-lora runs/full --apply runs/full -o advised.yaml
    """
    from grpodyn.cli.lookup import find_run
    from grpodyn.errors import UsageError
    from grpodyn.lora.policy import Options
    from grpodyn.trace import strict_json
    from grpodyn.trace.reader import open_run

    if apply is not None and output is None:
        raise UsageError(f"--apply {apply} needs -o NEW: the file to write")
    options = Options(rank, goal, max_params, max_fraction, method, _ladder(rank_ladder), keep_lr, experts)
    run = find_run(run)
    opened = open_run(run)
    try:
        from grpodyn.lora import advice as lora_advice
        from grpodyn.lora import apply as lora_apply
    except ModuleNotFoundError as error:
        raise UsageError(
            f"advice is checked with PEFT, and {error.name!r} is not installed: pip install 'grpodyn[train]'"
        ) from error
    found = lora_advice.advise(opened, options)
    written: list[str] = []
    if apply is not None and output is not None:
        merged = lora_apply.merge(lora_apply.read_config(apply), found, str(apply))
        lora_apply.write_run_config(output, merged, found, overwrite)
        written = [f"{output}: {change}" for change in merged.changes]
    elif output is not None:
        written = [f"{lora_apply.write_peft_config(output, found, overwrite)}: PEFT config"]
    if as_json:
        typer.echo(strict_json.dumps({**found.to_json(), "written": written}, indent=2))
        return
    from grpodyn.cli import advice_view

    advice_view.show(found, written)


def _ladder(text: str | None) -> tuple[int, ...]:
    from grpodyn.errors import UsageError

    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--rank-ladder {text!r}: expected ranks with commas between them, such as 8,16,32") from None
