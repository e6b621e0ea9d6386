"""`grpodyn record`: trains with the recorder on."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from grpodyn.cli.output import LastingOutput
from grpodyn.cli.script_call import ScriptCall
from grpodyn.errors import UsageError

if TYPE_CHECKING:
    from grpodyn.config.launch import Launch
    from grpodyn.config.run import RunConfig

RUNS = Path("runs")
LONGEST_NAME = 255
"""Bytes of a file name that common file systems take."""


def command(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Argument(
            help="Run config (YAML), or a run to repeat; without one, the embedded model and task.", metavar="[CONFIG]"
        ),
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", "-d", help="Where to record; default runs/NAME.", show_default=False)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="NAME in runs/NAME; default the config's file name, with -lora after it under --lora."),
    ] = None,
    lora: Annotated[
        Path | None, typer.Option(help="Train this adapter: JSON of a PEFT LoraConfig, or of recommend-lora.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Replace one value of the config, as key=value (YAML); may be repeated."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run there, from its last checkpoint.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only estimate steps, tokens and memory.")] = False,
    accelerate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --plan: for the processes that this accelerate config starts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan, or the summary, as JSON.")] = False,
) -> None:
    """Train with GRPO and record what happens inside the model.

    Ctrl-C ends it after the current step: the run is whole up to there, and --resume goes on. A second Ctrl-C stops at
    once.

    Examples:

    grpodyn record

    grpodyn record config.yaml --set grpo.learning_rate=1e-5 --name lower-lr

    grpodyn record config.yaml --lora lora.json --plan

    grpodyn record --run-dir runs/a -- train.py --lr 1e-5

    What stands after -- is a script of your own, which runs unchanged: a recorder joins every transformers trainer that
    it builds. For several processes: accelerate launch -m grpodyn record -- train.py
    """
    if isinstance(context.obj, ScriptCall):
        options = {"CONFIG": config, "--lora": lora, "--plan": plan, "--json": as_json}
        script = context.obj.check([option for option, value in options.items() if value], settings or [])
        directory = _directory(Path(f"{script.name}.py"), run_dir, name, None)
        if _leads():
            _check_directory(directory, resume)
        context.obj.record_into(directory, append=resume, speaks=_leads())
        return
    if config is not None and config.suffix == ".py":
        raise UsageError(f"{config} is a script, expected a run config (YAML); to run it: grpodyn record -- {config}")
    if accelerate is not None and not plan:
        raise UsageError(
            f"--accelerate {accelerate} belongs to --plan; to train so: accelerate launch --config_file {accelerate} "
            "-m grpodyn record …"
        )
    directory = _directory(config, run_dir, name, lora)
    launch = _launch(accelerate)
    chosen = _config(config, lora, settings or [], directory if resume else None, launch.processes)
    if plan:
        _plan(chosen, launch, as_json)
        return
    if _leads():
        _check_directory(directory, resume)
    _record(chosen, directory, resume, as_json)


def _launch(accelerate: Path | None) -> Launch:
    from grpodyn.config.launch import read_launch, this_process

    return this_process() if accelerate is None else read_launch(accelerate)


def _leads() -> bool:
    """Return whether this process is the one of its ranks that writes and speaks."""
    return os.environ.get("RANK", "0") == "0"


def _directory(config: Path | None, run_dir: Path | None, name: str | None, lora: Path | None) -> Path:
    if run_dir is not None:
        if name is not None:
            raise UsageError(f"--run-dir {run_dir} and --name {name} both say where to record; give one of them")
        return run_dir
    stem = "embedded" if config is None else config.stem
    return RUNS / (name or (stem if lora is None else f"{stem}-lora"))


def _config(
    path: Path | None, lora: Path | None, settings: list[str], resumed: Path | None, processes: int
) -> RunConfig:
    """Return the config to train: the one given, or on a resume without one that with which the run was started."""
    from grpodyn.config import run
    from grpodyn.config.batching import batch_plan
    from grpodyn.config.lora_file import read_lora
    from grpodyn.config.resume import check_resumable, recorded_config

    recorded = None if resumed is None else recorded_config(resumed)
    if path is not None and path.is_dir():
        wanted = run.from_dict(recorded_config(path).to_dict(), f"the config of {path}", settings)
    elif path is not None:
        wanted = run.load(path, settings)
    elif recorded is not None:
        wanted = run.from_dict(recorded.to_dict(), f"the config of {resumed}", settings)
    else:
        wanted = run.embedded(settings)
    if lora is not None:
        adapter = read_lora(lora)
        wanted = wanted.with_lora(adapter.lora)
        rate = wanted.grpo.get("learning_rate")
        if adapter.learning_rate is not None and adapter.learning_rate != rate:
            # Not taken over by itself: --lora names an adapter, and a rate that changes unasked is hard to notice.
            typer.echo(
                f"{lora} advises a learning rate of {adapter.learning_rate:g}, this run has {rate}; to follow it: "
                f"--set grpo.learning_rate={adapter.learning_rate:g}",
                err=True,
            )
    if recorded is not None:
        check_resumable(recorded, wanted)
    batch_plan(wanted.grpo, processes)
    return wanted


def _check_directory(directory: Path, resume: bool) -> None:
    from grpodyn.errors import DirectoryInUseError
    from grpodyn.trace.lock import living_writer
    from grpodyn.trace.writer import contents

    # Asked before anything is loaded: a file system refuses the name only where its parent exists.
    too_long = [part for part in directory.parts if len(os.fsencode(part)) > LONGEST_NAME]
    if too_long:
        raise UsageError(
            f"{too_long[0][:20]}… is a name of {len(os.fsencode(too_long[0]))} bytes, expected at most {LONGEST_NAME}; "
            "choose another --run-dir or --name"
        )
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file, expected a directory to record into")
    writer = living_writer(directory)
    if writer is not None:
        raise DirectoryInUseError(
            f"{directory} is being written by process {writer.get('pid')} on {writer.get('host')}; wait for it to end, "
            "or record elsewhere with --run-dir"
        )
    held = contents(directory)
    if held and not resume:
        raise DirectoryInUseError(
            f"{directory} is not empty (it holds {', '.join(held[:3])}{' …' if len(held) > 3 else ''}); go on with the "
            "run there by --resume, or record elsewhere with --name or --run-dir"
        )


def _record(config: RunConfig, directory: Path, resume: bool, as_json: bool) -> None:
    from rich.console import Console

    from grpodyn.cli.verbosity import is_quiet

    # Hours of training are not lost because nobody can read how far they are.
    shown = LastingOutput(sys.stderr if as_json else sys.stdout)
    console = Console(file=cast(TextIO, shown), quiet=not _leads())
    progress = Console(file=cast(TextIO, shown), quiet=is_quiet() or not _leads())
    progress.print(f"recording into {directory}", markup=False, highlight=False)

    # Seconds of imports: only now, when everything that can be checked without them has been.
    from grpodyn.training.display import display_for
    from grpodyn.training.session import train
    from grpodyn.training.summary import lines, summarize

    try:
        trained = train(config, directory, display_for(progress), resume=resume)
    except KeyboardInterrupt:
        typer.echo(
            f"grpodyn: stopped at once; what was committed is in {directory}, --resume goes on from there", err=True
        )
        raise typer.Exit(130) from None
    if not _leads():
        return
    if trained.unrecorded is not None:
        typer.echo(f"grpodyn: trained without a record ({trained.unrecorded}); see {trained.run_dir}", err=True)
        return
    summary = summarize(trained.run_dir)
    if as_json:
        _echo_json(summary)
        return
    if summary.stages is not None:
        from grpodyn.cli.stages_view import stages_table

        console.print(stages_table(summary.stages))
    for line in lines(summary):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if shown.failed is not None:
        typer.echo(f"grpodyn: standard output could not be written ({shown.failed}); see {trained.run_dir}", err=True)


def _plan(config: RunConfig, launch: Launch, as_json: bool) -> None:
    from grpodyn.training.plan import plan_run
    from grpodyn.training.quiet import quiet_libraries

    with quiet_libraries():
        planned = plan_run(config, launch)
    if as_json:
        stages = [asdict(one) | {"memory": _memory_json(one.memory)} for one in planned.stages]
        _echo_json(asdict(planned) | {"memory": _memory_json(planned.memory), "stages": stages})
        return
    _show_plan(planned)


def _show_plan(planned: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="plan", title_justify="left", show_header=False)
    most = "at most " if any(one.steps_are_most for one in planned.stages) else ""
    of_all = f"{most}{planned.steps:,} in {len(planned.stages)} stages"
    rows = [
        (
            "steps",
            of_all
            if planned.stages
            else f"{planned.steps:,} ({planned.epochs:g} epochs of {planned.training_prompts:,} prompts)",
        ),
        ("prompts per step", f"{planned.prompts_per_step:g}, {planned.group_size} completions each"),
        ("completions", f"{planned.completions:,}"),
        (
            "tokens",
            f"{planned.prompt_tokens:,} of prompts, at most {planned.completion_tokens_at_most:,} of completions",
        ),
        ("parameters", f"{planned.parameters:,}, trained {planned.trainable_parameters:,}"),
        ("processes", f"{planned.processes}, {'which share the model' if planned.sharded else 'each with the model'}"),
        *_memory_rows(planned.memory),
    ]
    for row in rows:
        table.add_row(*row)
    console = Console()
    if planned.stages:
        console.print(_stages_table(planned.stages))
    console.print(table)
    for caution in planned.cautions:
        console.print(f"caution: {caution}", markup=False, highlight=False, soft_wrap=True)


def _stages_table(stages: Any) -> Any:
    from rich.box import SIMPLE
    from rich.filesize import decimal
    from rich.table import Table

    from grpodyn.cli.text import visible

    table = Table(title="stages (≤: at most)", title_justify="left", box=SIMPLE, pad_edge=False)
    for column in ("stage", "kind", "steps", "rows", "prompt tokens", "completion tokens", "peak of a device"):
        table.add_column(column, justify="left" if column in ("stage", "kind") else "right")
    for one in stages:
        sampled = "≤ " if one.kind == "grpo" else ""
        table.add_row(
            visible(one.name),
            one.kind,
            f"{'≤ ' if one.steps_are_most else ''}{one.steps:,}",
            f"{one.rows:,}",
            f"{one.prompt_tokens:,}",
            f"{sampled}{one.completion_tokens:,}",
            "unknown" if one.memory.total is None else decimal(one.memory.total),
        )
    return table


def _memory_json(memory: Any) -> dict[str, Any]:
    return asdict(memory) | {"total": memory.total}


def _memory_rows(memory: Any) -> list[tuple[str, str]]:
    from rich.filesize import decimal

    parts = [
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        ("optimizer", memory.optimizer),
        ("reference model", memory.reference_model),
        ("activations, at most", memory.activations),
        ("logits, at most", memory.logits),
        ("weights cast to bfloat16", memory.cast_copies),
        ("blocks gathered", memory.gathered),
        ("weights for generation", memory.generation_weights),
        ("generation cache, at most", memory.generation_cache),
        ("recorder, at most", memory.recorder),
        ("peak of a device", memory.total),
    ]
    # What a run does not need is left out, what is not known is said.
    return [(f"memory: {name}", "unknown" if size is None else decimal(size)) for name, size in parts if size != 0]


def _echo_json(value: Any) -> None:
    from grpodyn.trace import strict_json

    typer.echo(strict_json.dumps(value, indent=2))
