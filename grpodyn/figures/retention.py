"""What a run lost against what it gained."""

from __future__ import annotations

import math
from typing import Any

from grpodyn.figures.drawn import Drawn, Width, sheet
from grpodyn.figures.style import FAINT, colour, dash, marker, styled
from grpodyn.figures.text import label, listed, number


@styled
def retention(found: Any, width: Width = "page") -> Drawn:
    """Draw drift, perplexity and earlier stages against the gain of the task, step by step.

    Args:
        found: what the analysis `forgetting` returns.
        width: of the paper.
    """
    panels = _panels(found)
    many = max(len(panels), 1)
    figure, axes = sheet(width, 2.7, 1, many) if width == "page" else sheet(width, 2.2 * many, many, 1)
    for one, (title, level, curves) in zip(axes, panels, strict=False):
        for place, (name, points) in enumerate(curves.items()):
            gains, values, _ = zip(*points, strict=True)
            one.plot(
                gains, values, color=colour(place), linestyle=dash(place), marker=marker(place), label=label(name, 20)
            )
            one.annotate(
                f"step {points[-1][2]}", (gains[-1], values[-1]), xytext=(0, 5), textcoords="offset points", ha="right",
                fontsize=7,
            )  # fmt: skip
        one.axhline(level, color=FAINT, linestyle="--", linewidth=0.9)
        one.set_xlabel("gain in held-out accuracy")
        one.set_title(title)
        if len(curves) > 1 or width == "page":
            one.legend()
    return Drawn(figure, "retention", "What was lost against what was gained", _describe(found, panels))


_Points = list[tuple[float, float, int]]
"""Gain, value, step."""


def _panels(found: Any) -> list[tuple[str, float, dict[str, _Points]]]:
    """Return title, level of no loss, and curves, of what was measured beside the task."""
    drift = {"forward KL": [(p.gain, p.forward_kl, p.step) for p in found.curve]}
    texts = list(dict.fromkeys(name for p in found.curve for name in p.perplexity_ratio))
    stages = list(dict.fromkeys(name for p in found.curve for name in p.stage_difference))
    perplexity = {n: [(p.gain, p.perplexity_ratio.get(n, math.nan), p.step) for p in found.curve] for n in texts}
    stage = {n: [(p.gain, p.stage_difference.get(n, math.nan), p.step) for p in found.curve] for n in stages}
    candidates = (
        ("drift from the start, nats", 0.0, drift),
        ("perplexity, over that at the start", 1.0, perplexity),
        ("earlier stages, change of accuracy", 0.0, stage),
    )
    kept = []
    for title, level, curves in candidates:
        known = {name: [p for p in points if _finite(p)] for name, points in curves.items()}
        known = {name: points for name, points in known.items() if points}
        if known:
            kept.append((title, level, known))
    return kept


def _finite(point: tuple[float, float, int]) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def _describe(found: Any, panels: Any) -> str:
    said = [f"Steps {found.first_step} to {found.last_step}."]
    for title, _, curves in panels:
        ends = [
            f"{name} {number(points[-1][1])} at a gain of {number(points[-1][0])}" for name, points in curves.items()
        ]
        said.append(f"{title[0].upper()}{title[1:]}: {listed(ends)}.")
    if not panels:
        said.append("No step has both a gain and a measure of what was kept.")
    return " ".join(said)
