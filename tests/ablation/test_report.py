"""The page and the figure that an ablation is published with."""

import json

import pytest

from grpodyn.ablation.judging import conclude
from grpodyn.ablation.protocol import Study
from tests.simulation.scripts import report_script

FOUR = ["advised", "all-linear", "all-linear-same-budget", "random-same-budget"]


@pytest.fixture(scope="module")
def report():
    return report_script("ablation")


@pytest.fixture
def result(make_plan, known):
    study = Study(name="s", arms=FOUR)
    find = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)), lambda arm, seed: 0.01 * seed * (len(arm) % 3))
    plans = [make_plan(study, name) for name in ("first", "second")]
    return conclude(study, plans, find, protocol_sha256="0123456789abcdef0", trained=9)


def test_the_page_holds_every_arm_and_comparison(report, result):
    text = report.page(result)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for task in ("first", "second"):
        assert f"### {task}\n" in text
        assert sum(line.startswith(f"| {task} | advised") for line in rows) == 3
    assert sum(line.startswith("| all-linear-same-budget |") for line in rows) == 2
    assert f"Verdict: **{result.verdict}**" in text
    assert len({line.count("|") for line in rows if line.startswith(("| first", "| second"))}) == 1


def test_the_figure_has_a_panel_a_task(report, result, tmp_path):
    figure = report.draw(result)
    assert [axes.get_title() for axes in figure.axes] == ["first", "second"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == FOUR[::-1]
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_an_unfinished_study_can_be_shown(report, make_plan, known):
    study = Study(name="s", arms=FOUR)
    complete = known(dict.fromkeys(FOUR, 0.5))

    def find(job):
        return complete(job) if job.phase in ("base", "base_choose") or job.arm == "all-linear" else None

    result = conclude(study, [make_plan(study)], find, protocol_sha256="p", trained=1)
    assert "| advised |" in report.page(result)
    report.draw(result)
    json.dumps(result.to_json(), allow_nan=False)
