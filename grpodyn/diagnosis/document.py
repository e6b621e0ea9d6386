"""The docs page of findings, made from the rules themselves.

`python -m grpodyn.diagnosis.document` writes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpodyn.diagnosis.rule import Rule, rules

INTRODUCTION = """\
# Diagnosis

Made from the rules by `python -m grpodyn.diagnosis.document`; do not edit.

`grpodyn diagnose RUN|LOG` says what is going wrong in a run, since which step, on what figures of this run that rests,
what it may be confused with, and which key of the run config to change. It reads a run directory, or somebody's log as
it is ([importing.md](importing.md) lists the formats), without torch and without writing anything.

```
grpodyn diagnose runs/full
grpodyn diagnose trainer_state.json
grpodyn diagnose runs/full --fail-on warning     # exit 1 on a warning or worse, for scripts
grpodyn diagnose runs/full --patch next.yaml     # the run's own config with the changes in it
grpodyn record next.yaml
```

**Severity.** `info` is worth knowing and no fault; `warning` costs something; `critical` makes going on pointless.

**Causes and consequences.** Where one finding explains another (all completions are cut off, so all groups are wrong),
the second is told as what follows from the first: as `info`, without a change of its own. That takes a first one that
is at least as grave and began no later, as far as series smoothed over 5 to 25 rows tell; else both are told as they
are.

**Silence.** A rule that lacks its data is listed as not checked, with the reason (`--all`, or `unchecked` in JSON). A
run that is empty, cut off or sampled is called that. Means of a log hide what rollouts show: which groups were right,
how long wrong completions were, whether two rewards pull against each other.

**The patch.** `--patch FILE` merges the changes of all findings (or of those named by `--take`), the gravest first,
into the run's config, validates the whole, and writes it with each change as a comment. A change that a graver finding
has made otherwise is named and left out. A log holds no run config: give it with `--config`. A finding whose patch is
`null` has no value that follows from what was seen.

**While training.** `grpodyn record` checks every row of the trainer's log as it comes and says each finding of severity
`warning` or worse once, when it is first seen; it becomes an event of the run. In a script of your own:

```python
from grpodyn.diagnosis.callback import DiagnoseLive

trainer = GRPOTrainer(..., callbacks=[recorder, DiagnoseLive(recorder)])
```

It never stops a training, and what fails in it does not reach one: that is logged, and is an event `diagnosis failed`
of the run. The cost of a row does not grow with the rows before it.

**How sure.** Thresholds are set on simulated runs, and on what the literature and public issue threads report; the
figures of fresh simulated runs and of recorded ones are in [results/diagnose.md](results/diagnose.md).

## Findings
"""


def markdown() -> str:
    """Return the docs page."""
    found = rules()
    lines = [INTRODUCTION, "| id | says |", "|---|---|"]
    lines += [f"| [{name}](#{name}) | {rule.title} |" for name, rule in found.items()]
    for name, rule in found.items():
        lines += _section(name, rule)
    return "\n".join(lines) + "\n"


def _section(name: str, rule: Rule) -> list[str]:
    lines = [
        "",
        f"### {name}",
        "",
        f"{rule.title}.",
        "",
        rule.meaning,
        "",
        f"- change: {rule.change} (`{rule.config_key}`)",
    ]
    if rule.may_be:
        lines.append(f"- may be: {'; '.join(rule.may_be)}")
    if rule.follows_from:
        lines.append(f"- follows from: {', '.join(f'`{other}`' for other in rule.follows_from)}")
    lines.append(f"- rests on: {rule.reference}")
    return lines


def _write(
    path: Annotated[Path, typer.Argument(help="The page to write.")] = Path("docs/diagnose.md"),
) -> None:
    """Write the docs page of findings."""
    path.write_text(markdown(), encoding="utf-8")
    typer.echo(f"wrote {path}")


if __name__ == "__main__":
    typer.run(_write)
