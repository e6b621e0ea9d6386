"""`grpodyn diagnose`: what is going wrong in a run or a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpodyn.cli.text import literal
from grpodyn.errors import EXIT_FINDING, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from grpodyn.diagnosis import Diagnosis, Finding
    from grpodyn.diagnosis.observations import Observations

_COLOURS = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def command(
    source: Annotated[Path, typer.Argument(metavar="RUN|LOG", help="A run directory, or a log as import takes it.")],
    fail_on: Annotated[
        str | None, typer.Option("--fail-on", metavar="LEVEL", help="Exit 1 on a finding of info, warning or critical.")
    ] = None,
    patch: Annotated[
        Path | None, typer.Option(help="Write the run config with the findings' changes in it, for `record`.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The run config (YAML) of a log or run that holds none.")] = None,
    take: Annotated[
        list[str] | None, typer.Option("--take", help="Only the changes of this finding; may be repeated.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Which run to take from a table that holds several.")] = None,
    part: Annotated[int | None, typer.Option(help="Which run to take from a log that holds several.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also list what could not be checked, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say what is going wrong in a run, since when, what it may be confused with, and which setting to change.

    A log is read as it is, without torch and without writing anything.

    Examples:

    grpodyn diagnose runs/full --fail-on warning

    grpodyn diagnose trainer_state.json

    grpodyn diagnose runs/full --patch next.yaml
    """
    from grpodyn.diagnosis import SEVERITIES, diagnose
    from grpodyn.diagnosis.finding import at_least
    from grpodyn.diagnosis.rule import rules
    from grpodyn.errors import UnknownNameError

    level = next((severity for severity in SEVERITIES if severity == fail_on), None)
    if fail_on is not None and level is None:
        raise UnknownNameError.among("level", fail_on, SEVERITIES)
    for name in take or ():
        if name not in rules():
            raise UnknownNameError.among("finding", name, rules())
    seen = _observe(source, config, run, part)
    result = diagnose(seen)
    written = None if patch is None else _write_patch(patch, seen, result, take)
    if as_json:
        from grpodyn.trace import strict_json

        typer.echo(strict_json.dumps(_json(result, written), indent=2))
    else:
        from rich.console import Console

        _show(Console(), result, written, everything)
    if level is not None and result.worst is not None and at_least(result.worst, level):
        raise typer.Exit(EXIT_FINDING)


def _observe(source: Path, config: Path | None, run: str | None, part: int | None) -> Observations:
    from dataclasses import replace

    from grpodyn.cli.lookup import find_run, runs_in
    from grpodyn.trace.schema import MANIFEST

    given = None
    if config is not None:
        from grpodyn.config import run as run_config

        given = run_config.load(config).to_record()
    source = find_run(source)
    # A folder of runs is no log either: it is refused with their names.
    if (source / MANIFEST).exists() or runs_in(source):
        from grpodyn.diagnosis.of_run import observe_run
        from grpodyn.trace.reader import open_run

        seen = observe_run(open_run(source))
        return seen if given is None else replace(seen, config=given)
    from grpodyn.diagnosis.of_history import observe_history
    from grpodyn.importers import read_log, understand

    return observe_history(understand(read_log(source, run), part), str(source), given)


def _write_patch(path: Path, seen: Observations, result: Diagnosis, take: list[str] | None) -> dict[str, Any]:
    from grpodyn.config import yaml_text
    from grpodyn.diagnosis import patches

    if path.exists():
        raise UsageError(f"{path} exists; give --patch another name")
    chosen = [finding for finding in result.findings if finding.patch and (not take or finding.id in take)]
    if seen.config is None:
        settings = " ".join(f"--set '{item}'" for f in chosen for item in patches.settings_of(f.patch or {}))
        raise UsageError(
            f"{seen.source} holds no run config to change; give it with --config, or train with: "
            f"grpodyn record CONFIG {settings}"
        )
    patched = patches.apply(seen.config, chosen, f"{path} (the config of {seen.source} with changes)")
    lines = [f"# Written by `grpodyn diagnose` from {seen.source}.", *(f"# {change}" for change in patched.changes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n" + yaml_text.dump(dict(patched.config)), encoding="utf-8")
    return {"path": str(path), "changes": list(patched.changes), "not_taken": list(patched.not_taken)}


def _json(result: Diagnosis, written: dict[str, Any] | None) -> dict[str, Any]:
    from dataclasses import asdict

    facts = asdict(result)
    return facts if written is None else facts | {"patch": written}


def _show(console: Console, result: Diagnosis, written: dict[str, Any] | None, everything: bool) -> None:
    of = "imported, " if result.imported else ""
    console.print(literal(f"{result.source}: {of}{result.rows} rows, last step {result.last_step}"))
    if not result.findings:
        console.print(literal(f"nothing found by the {len(result.checked)} rules that could be checked"))
    for finding in result.findings:
        _show_finding(console, finding)
    console.print()
    hint = "" if everything else " (--all says why)"
    console.print(literal(f"{len(result.checked)} rules checked, {len(result.unchecked)} not, for want of data{hint}"))
    reasons: dict[str, list[str]] = {}
    for item in result.unchecked if everything else ():
        reasons.setdefault(item.why, []).append(item.id)
    for why, ids in reasons.items():
        console.print(literal(f"  {', '.join(ids)}: {why}"), style="dim")
    if written is not None:
        console.print(literal(f"wrote {written['path']}; train it with: grpodyn record {written['path']}"))
        for change in written["changes"]:
            console.print(literal(f"  {change}"))
        for change in written["not_taken"]:
            console.print(literal(f"  not taken: {change}"))


def _show_finding(console: Console, finding: Finding) -> None:
    from rich.text import Text

    from grpodyn.diagnosis import patches
    from grpodyn.diagnosis.rule import rules

    since = f", since step {finding.onset_step}" if finding.onset_step is not None else ""
    console.print()
    console.print(
        Text.assemble((finding.severity, _COLOURS[finding.severity]), f"  {rules()[finding.id].title}{since}  "),
        Text(f"({finding.id})", style="dim"),
    )
    for sentence in finding.evidence:
        console.print(literal(f"  • {sentence}"))
    for other in finding.may_be:
        console.print(literal(f"  may be: {other}"), style="dim")
    if finding.patch:
        console.print(literal(f"  change: {' '.join(patches.settings_of(finding.patch))}"))
    elif finding.config_key:
        console.print(literal(f"  change: {finding.config_key} — {rules()[finding.id].change}"))
