"""A run at one moment as a frame of text of a given size; shows what was found and computes nothing."""

from __future__ import annotations

import math
from datetime import timedelta

from rich.console import Group
from rich.text import Text

from grpodyn.cli.plot import Canvas, line, span
from grpodyn.cli.text import figure, literal, visible
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.rule import rules
from grpodyn.watching.snapshot import Fit, GroupShares, Snapshot

LEAST_HEIGHT = 12
_SEVERITY = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_POINTS, _CURVE, _BAND = "cyan", "bold yellow", "dim"
_LABEL = 8
_LONGEST_PATH = 36
_MOST_FINDINGS = 4


def frame(snapshot: Snapshot, width: int, height: int, *, plain: bool = False, hint: str = "", note: str = "") -> Group:
    """Return a frame that fits `width` columns and `height` lines.

    Args:
        snapshot: what to show.
        width: columns.
        height: lines, at least `LEAST_HEIGHT`.
        plain: use ASCII alone.
        hint: shown at the bottom right, such as how to leave.
        note: shown as a line of its own, such as that the run cannot be read now.
    """
    height = max(height, LEAST_HEIGHT)
    head = [_head(snapshot, plain), _progress(snapshot, width, plain)]
    health = _health(snapshot)
    movers = _movers(snapshot, 5 if height >= 30 else 3)
    tail = [*([Text(visible(note), style="bold red")] if note else []), _foot(snapshot, width, hint)]
    gap = [Text()] if height >= 22 else []
    fixed = [*gap, _groups(snapshot.groups, plain), *gap, *health, *gap, *movers]
    # The reward takes what is left, with a line above for its words; a low window loses the movers before the plot.
    room = height - len(head) - len(fixed) - len(tail)
    if room < 5:
        fixed = [*fixed[: len(fixed) - len(movers)]]
        room = height - len(head) - len(fixed) - len(tail)
    lines = [*head, *_reward(snapshot, width, max(3, room), plain), *fixed]
    lines = [*lines[: height - len(tail)], *tail]
    for text in lines:
        text.no_wrap, text.overflow = True, "ellipsis"
        text.truncate(width, overflow="crop" if plain else "ellipsis")
    return Group(*lines)


def _head(snapshot: Snapshot, plain: bool) -> Text:
    style = {"running": "bold green", "finished": "bold"}.get(snapshot.status, "bold red")
    path = visible(snapshot.path)
    # The end of a long path tells runs apart.
    shown = path if len(path) <= _LONGEST_PATH else f"...{path[3 - _LONGEST_PATH :]}"
    text = Text.assemble((shown, "bold"), "  ", (snapshot.status, style))
    latest = snapshot.latest
    for name, label, form in (("entropy", "entropy", ".3g"), ("kl", "KL", ".2g"), ("learning_rate", "lr", ".1e")):
        if name in latest:
            text.append(f"{' | ' if plain else ' · '}{label} {latest[name]:{form}}", style="dim")
    return text


def _progress(snapshot: Snapshot, width: int, plain: bool) -> Text:
    step, planned = snapshot.step, snapshot.planned_steps
    if step < 0:
        return Text("nothing recorded yet")
    words = f"step {step}" + (f" of {planned}" if planned else "")
    if math.isfinite(snapshot.seconds_a_step):
        words += f"  {snapshot.seconds_a_step:.3g} s a step"
    if math.isfinite(snapshot.seconds_left):
        words += f"  {timedelta(seconds=round(snapshot.seconds_left))} left"
    room = min(40, width - len(words) - 2)
    if not planned or room < 8:
        return Text(words)
    done = min(room, round(room * step / planned))
    full, rest = ("#", "-") if plain else ("━", "╌")
    return Text.assemble((full * done, "green"), (rest * (room - done), "dim"), "  ", words)


def _reward(snapshot: Snapshot, width: int, height: int, plain: bool) -> list[Text]:
    """Return exactly `height` lines: what is expected in words, the plot, and its axis."""
    fit = snapshot.fit
    if fit is None or not fit.steps:
        return [Text("no reward yet"), *[Text()] * (height - 1)]
    return [_expected(fit), *_plot(fit, width, height - 2, plain)]


def _expected(fit: Fit) -> Text:
    now = next((value for value in reversed(fit.rewards) if math.isfinite(value)), math.nan)
    text = Text.assemble((f"{visible(fit.metric)} {figure(now)}", "bold"), f"  {fit.verdict.replace('_', ' ')}")
    if fit.final is not None:
        value, low, high = fit.final
        word = "ends at" if fit.ahead is not None else "level"
        text.append(f"; {word} {figure(value)} ({figure(low)} to {figure(high)})")
    if fit.plateau_step is not None:
        word = "plateau since" if fit.plateau_step <= fit.step else "plateau near"
        text.append(f"; {word} step {fit.plateau_step:.0f}")
    if fit.final is None and fit.plateau_step is None and fit.why:
        text.append(f": {visible(fit.why[0])}")
    return text


def _plot(fit: Fit, width: int, height: int, plain: bool) -> list[Text]:
    last = fit.ahead.steps[-1] if fit.ahead is not None else fit.steps[-1]
    ahead = () if fit.ahead is None else (*fit.ahead.low, *fit.ahead.high)
    values = span([*fit.rewards, *(fit.curve.value if fit.curve is not None else ()), *ahead])
    labels = [f"{value:.3g}" for value in values]
    margin = max(_LABEL, *(len(label) + 2 for label in labels))
    columns, rows = max(10, width - margin), max(1, height)
    canvas = Canvas(columns, rows, (fit.steps[0], max(last, fit.steps[0])), values, plain)
    if fit.ahead is not None:
        for edge in (fit.ahead.low, fit.ahead.high):
            canvas.draw(line(fit.ahead.steps, edge, columns // 2), ".", _BAND)
    canvas.draw(zip(fit.steps, fit.rewards, strict=True), "*", _POINTS)
    for curve in (fit.curve, fit.ahead):
        if curve is not None:
            canvas.draw(line(curve.steps, curve.value, 2 * columns), "-", _CURVE)
    bar = "|" if plain else "│"
    lines = []
    for i, row in enumerate(canvas.rows()):
        shown = labels[1] if i == 0 else labels[0] if i == rows - 1 else ""
        lines.append(Text.assemble((f"{shown:>{margin - 2}} {bar}", "dim"), row))
    return [*lines, _axis(fit.steps[0], last, margin, columns)]


def _axis(first: float, last: float, margin: int, columns: int) -> Text:
    left, right = f"{first:.0f}", f"step {last:.0f}"
    return Text(" " * margin + left + " " * max(1, columns - len(left) - len(right)) + right, style="dim")


def _groups(groups: GroupShares | None, plain: bool) -> Text:
    if groups is None:
        return Text("groups   not recorded", style="dim")
    dot = " | " if plain else " · "
    parts = [
        f"{name} {share:.0%}"
        for name, share in (("all right", groups.all_right), ("mixed", groups.mixed), ("all wrong", groups.all_wrong))
        if math.isfinite(share)
    ]
    parts.append(f"no spread {groups.dead:.0%}")
    return Text.assemble((f"groups of {groups.g}", "bold"), f"  {dot.join(parts)}", (f"  last {groups.groups}", "dim"))


def _health(snapshot: Snapshot) -> list[Text]:
    found = list(snapshot.findings)
    lines = [_finding(one) for one in found[:_MOST_FINDINGS]]
    if len(found) > _MOST_FINDINGS:
        lines[-1] = Text(f"and {len(found) - _MOST_FINDINGS + 1} more: grpodyn diagnose {visible(snapshot.path)}")
    lines += [Text(visible(f"problem  {problem}"), style="bold red") for problem in snapshot.problems[:1]]
    return lines or [Text.assemble(("health", "bold"), "   nothing found")]


def _finding(finding: Finding) -> Text:
    since = f" since step {finding.onset_step}" if finding.onset_step is not None else ""
    evidence = f": {visible(finding.evidence[0])}" if finding.evidence else ""
    title = rules()[finding.id].title
    return Text.assemble((f"{finding.severity:<8} ", _SEVERITY[finding.severity]), f"{title}{since}", (evidence, "dim"))


def _movers(snapshot: Snapshot, most: int) -> list[Text]:
    if not snapshot.movers:
        return []
    if not any(mover.update_ratio > 0 or mover.delta_norm > 0 for mover in snapshot.movers):
        return [Text.assemble(("moves most for its size", "bold"), "   nothing moves")]
    lines = [Text(f"{'moves most for its size':<52}{'a step':>10}{'so far':>10}", style="bold")]
    for mover in snapshot.movers[:most]:
        name = visible(mover.tensor).removesuffix(".weight")
        shown = name if len(name) <= 50 else f"...{name[-47:]}"
        lines.append(
            literal(f"{shown:<52}{figure(mover.update_ratio, '.2e'):>10}{figure(mover.delta_norm, '.3g'):>10}")
        )
    return lines


def _foot(snapshot: Snapshot, width: int, hint: str) -> Text:
    cost = "recorder  cost not recorded"
    if math.isfinite(snapshot.recorder_seconds):
        share = f", {100 * snapshot.recorder_share:.2f} % of the steps' time" if snapshot.recorder_share > 0 else ""
        cost = f"recorder  {snapshot.recorder_seconds:.2f} CPU s{share}"
    room = max(0, width - len(hint) - 2)
    return Text(f"{cost[:room]:<{room}}  {hint}", style="dim")
