"""Figures of analysis results: drawn without a display, described in words, computed elsewhere.

Each function takes a result and a width, and returns a `Drawn`: a matplotlib figure with a title and an alternative
text made from its numbers. Nothing here touches pyplot's state.

    from grpodyn import figures, open_run, registry

    course = registry.analysis("reward_course").run(open_run("runs/a"))
    figures.reward(course).save("reward.pdf")
"""

from grpodyn.figures.comparison import arms, comparison
from grpodyn.figures.contribution import movement_and_contribution, truncation
from grpodyn.figures.cost import recorder_cost
from grpodyn.figures.drawn import Drawn, Width
from grpodyn.figures.groups import dead_groups, group_outcomes
from grpodyn.figures.layers import displacement, relative_update
from grpodyn.figures.overview import overview
from grpodyn.figures.path import path_and_displacement
from grpodyn.figures.ranks import ranks, spectra
from grpodyn.figures.retention import retention
from grpodyn.figures.reward import reward
from grpodyn.figures.stages import stages

__all__ = [
    "Drawn",
    "Width",
    "arms",
    "comparison",
    "dead_groups",
    "displacement",
    "group_outcomes",
    "movement_and_contribution",
    "overview",
    "path_and_displacement",
    "ranks",
    "recorder_cost",
    "relative_update",
    "retention",
    "reward",
    "spectra",
    "stages",
    "truncation",
]
