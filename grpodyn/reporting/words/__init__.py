"""Verdicts, tables and sentences about what analyses found: views for a `Page`, which compute nothing."""

from grpodyn.reporting.words.groups import group_size, group_table, trained_sizes
from grpodyn.reporting.words.lora import adapters, advice, contribution
from grpodyn.reporting.words.movement import dynamics, movement, path, rank_notes
from grpodyn.reporting.words.retention import retention
from grpodyn.reporting.words.reward import findings, forecast, forecast_table
from grpodyn.reporting.words.runs import comparison, cost, record
from grpodyn.reporting.words.stages import stages

__all__ = [
    "adapters",
    "advice",
    "comparison",
    "contribution",
    "cost",
    "dynamics",
    "findings",
    "forecast",
    "forecast_table",
    "group_size",
    "group_table",
    "movement",
    "path",
    "rank_notes",
    "record",
    "retention",
    "stages",
    "trained_sizes",
]
