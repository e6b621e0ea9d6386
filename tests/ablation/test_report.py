"""The page and the figure that an ablation is published with."""

import json
from dataclasses import replace

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


def test_who_wins_lists_adapters_of_one_size_best_first(report, result):
    text = report.page(result)
    table = text.split("### Who wins where")[1].split("###")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    assert rows[0] == ["arm", "first", "second", "mean"]
    # The arms of the fixture have 100, 200, 300 and 400 parameters: one alone has the tested one's size.
    assert [row[0] for row in rows[1:]] == ["advised"]
    same_size = [replace(arm, trainable_params=100) for arm in result.arms]
    arms = [arm if arm.arm != "random-same-budget" else replace(arm, trainable_params=110) for arm in same_size]
    rows = report._who_wins(replace(result, arms=tuple(arms))).splitlines()[4:]
    assert [row.split(" ")[1] for row in rows] == ["all-linear", "advised", "all-linear-same-budget"]
    assert rows[0].count("**100.0%**") == 2
    kept = next(arm.gain_kept.value for arm in result.arms if (arm.task, arm.arm) == ("first", "advised"))
    assert f"| {kept:.1%}, 10 |" in rows[1]


def test_curves_are_those_of_the_tested_seeds_at_the_best_rate(make_record, make_plan, known):
    curves = report_script("ablation_curves")
    study = Study(name="s", arms=FOUR)
    plan = make_plan(study)
    find = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)), lambda arm, seed: 0.01 * seed)
    result = conclude(study, [plan], find, protocol_sha256="p", trained=9)
    records = [find(plan.job(arm, "test", seed, power)) for arm in FOUR for seed in (1, 2, 3) for power in (-1, 0)]
    records += [find(plan.job(arm, "tune", 101, 0)) for arm in FOUR]
    advised = curves.curve(result.arm("advised"), records)
    tested = [find(plan.job("advised", "test", seed, 0)).accuracy for seed in (1, 2, 3)]
    assert list(advised) == [0, 5, 10]
    assert advised[10].value == pytest.approx(sum(tested) / 3)
    assert advised[5].value == pytest.approx(sum(tested) / 6)
    figure = curves.draw(result, records)
    assert [line.get_label() for line in figure.axes[0].lines[:-1]] == FOUR
    assert curves.draw(result, []).axes[0].get_title() == "toy"


def test_what_a_page_rests_on_is_kept_without_places_of_the_machine(report, result, tmp_path):
    result.write(tmp_path)
    tested = tmp_path / "sources" / "first" / "attribution.json"
    tested.parent.mkdir(parents=True)
    models = {"base": {"place": "/home/me/base", "sha256": "1"}, "final": {"place": "/home/me/final", "sha256": "2"}}
    tested.write_text(json.dumps({"sources": {**models, "evaluator": "exact"}, "verdict": "localised"}))
    report.keep(tmp_path, tmp_path / "kept")
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == ["ablation.json", "patch-test-first.json"]
    kept = json.loads((tmp_path / "kept" / "patch-test-first.json").read_text())
    assert kept["sources"]["base"] == {"place": "base", "sha256": "1"}
    assert kept["sources"]["final"]["place"] == "final"
    assert kept["verdict"] == "localised"
    assert json.loads((tmp_path / "kept" / "ablation.json").read_text()) == result.to_json()
