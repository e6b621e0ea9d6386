"""The page and the figure that a sweep is published with."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpodyn.statistics import Interval
from grpodyn.studies.conclude import judge_again
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.results import RESULTS, ArmResult
from grpodyn.studies.runner import carry_out
from tests.simulation.scripts import report_script
from tests.studies.conftest import FakePool, Watcher

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return report_script("sweep")


@pytest.fixture
def finished(two_arms, tmp_path):
    folder = tmp_path / "out"
    return carry_out(two_arms, planned_runs(two_arms, tmp_path), [], folder, FakePool, Watcher()), folder


def test_a_result_is_read_back_as_it_was_written(script, finished):
    result, folder = finished[0].result, finished[1]
    again = script.read(folder / RESULTS)
    assert [arm.arm for arm in again.arms] == [arm.arm for arm in result.arms]
    assert again.contrasts[0].difference.value == result.contrasts[0].difference.value
    assert script.page(again) == script.page(result)


def test_the_page_holds_every_arm_and_claim(script, finished):
    result = finished[0].result
    text = script.page(result)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for arm in result.arms:
        assert any(row.startswith(f"| {arm.arm} | {len(arm.seeds)} |") for row in rows)
    for one in result.contrasts:
        of_it = [row for row in rows if row.startswith(f"| {one.a} | {one.b} | {one.better} `{one.metric}`")]
        assert any(row.endswith(f"| {one.outcome} |") for row in of_it)
    assert result.configs_sha256[:16] in text


def test_a_result_of_before_opposites_were_judged_is_judged_anew(script, finished):
    result, folder = finished[0].result, finished[1]
    path = folder / RESULTS
    content = json.loads(path.read_text())
    for one in content["contrasts"]:
        del one["opposite_p"], one["opposite_p_holm"]
        one["outcome"] = "not shown"
    content["reading"] = []
    path.write_text(json.dumps(content))
    again = script.read(path)
    assert [one.outcome for one in again.contrasts] == [one.outcome for one in result.contrasts]
    assert again.reading == result.reading
    assert script.page(again) == script.page(result)


PUBLISHED = ["curriculum-v1v2v3", "kl", "lora-targets", "reward-refinement", "stop-reward"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_page_is_what_its_result_says(script, name, tmp_path, monkeypatch):
    source = ROOT / "docs/results" / name
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    page.write_text(source.with_suffix(".md").read_text())
    monkeypatch.setattr("sys.argv", ["sweep.py", f"{source}.json", "-o", str(page), "--keep", str(kept)])
    script.main()
    assert page.read_text() == source.with_suffix(".md").read_text()
    assert kept.read_text() == source.with_suffix(".json").read_text()
    result = script.read(kept)
    again = judge_again(result)
    assert again.reading == result.reading
    assert [one.outcome for one in again.contrasts] == [one.outcome for one in result.contrasts]


def test_that_the_stop_reward_makes_it_worse_is_held_to_holm(script):
    result = script.read(ROOT / "docs/results/stop-reward.json")
    at_the_end = result.contrasts[0]
    # Smallest of five opposites: 5 · .00054 = .0027.
    assert at_the_end.outcome == "refuted"
    assert at_the_end.opposite_p == pytest.approx(0.00054, abs=5e-6)
    assert at_the_end.opposite_p_holm == pytest.approx(5 * at_the_end.opposite_p)
    assert "| 1 | 1 | 0.0027 | +0.014 [+0.003, +0.026] | refuted |" in script.page(result)


def test_without_claims_the_page_holds_every_arm_beside_the_reference(script, two_arms, tmp_path):
    study = two_arms.model_copy(update={"contrasts": []})
    result = carry_out(study, planned_runs(study, tmp_path), [], tmp_path / "out", FakePool, Watcher()).result
    assert script.metrics(result) == ["heldout/accuracy", "perplexity_ratio/text"]
    text = script.page(result)
    assert "### Claims" not in text
    assert "### Beside none" in text
    assert "| kl | `perplexity_ratio/text` | ×" in text
    assert f"- {result.reading[0]}" in text


def test_where_nothing_is_held_out_the_reward_is_shown(script):
    arms = [ArmResult(name, {}, (1, 2), {"train/reward": Interval(0.5, 0.4, 0.6, 0.95)}, {}) for name in ("a", "b")]
    result = SimpleNamespace(arms=arms, contrasts=[], differences=[], runs=[])
    assert script.metrics(result) == ["train/reward"]
    assert script.draw(result).axes[0].get_title() == "train/reward"


def test_a_sweep_without_a_run_cannot_be_published(script, two_arms, tmp_path, monkeypatch, capsys):
    planned, folder = planned_runs(two_arms, tmp_path), tmp_path / "out"
    pool = lambda: FakePool(**{run.name.replace("-", "_"): "failed" for run in planned})  # noqa: E731
    carry_out(two_arms, planned, [], folder, pool, Watcher())
    monkeypatch.setattr("sys.argv", ["sweep.py", str(folder), "-o", str(tmp_path / "page.md")])
    with pytest.raises(SystemExit):
        script.main()
    assert "no run is done yet" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_the_figure_has_a_panel_a_metric_and_a_dot_a_run(script, finished, tmp_path):
    result = finished[0].result
    figure = script.draw(result)
    assert len(figure.axes) == len(script.metrics(result)) >= 2
    dots = figure.axes[0].lines[0]
    last = result.arms[-1]
    assert len(dots.get_xdata()) == sum(run.arm == last.arm for run in result.runs)
    figure.savefig(tmp_path / "figure.png")


def test_a_study_that_has_just_begun_can_be_shown(script, two_arms, tmp_path):
    planned = planned_runs(two_arms, tmp_path)
    pool = lambda: FakePool(**{run.name.replace("-", "_"): "failed" for run in planned[1:]})  # noqa: E731
    result = carry_out(two_arms, planned, [], tmp_path / "out", pool, Watcher()).result
    again = script.read(tmp_path / "out" / RESULTS)
    assert "–" in script.page(again)
    script.draw(again)
    assert result.failed == len(planned) - 1
