"""What a patch test says of each part: keep-only, put-back and Shapley shares, from `attribution.json`."""

from __future__ import annotations

from grpodyn.attribution.result import Attribution, Range
from grpodyn.placement.parts import layer

KEEP_ONLY = "keep-only"
PUT_BACK = "put-back"
SHAPLEY = "Shapley"


def scores(attribution: Attribution) -> dict[str, dict[str, float]]:
    """Return predictor → part → share of the gain.

    A block of several layers is worth to each of them its share divided by their number. Shapley values are known only
    for the leading parts of one partition: others have none and are never advised.
    """
    found: dict[str, dict[str, float]] = {KEEP_ONLY: {}, PUT_BACK: {}, SHAPLEY: {}}
    for result in attribution.parts:
        if not result.is_target:
            continue
        names = [layer(index) for index in result.layers] or [result.part]
        for name in names:
            found[KEEP_ONLY].setdefault(name, result.kept.value / len(names))
            found[PUT_BACK].setdefault(name, result.lost.value / len(names))
    for player in (attribution.shapley or {}).get("players", []):
        if player["part"] in found[KEEP_ONLY]:
            found[SHAPLEY][player["part"]] = Range.model_validate(player["share"]).value
    return found
