import io

import pytest
from rich.console import Console

from grpodyn.ablation.judging import conclude
from grpodyn.ablation.protocol import Study
from grpodyn.cli.ablation_view import AblationView, show

FOUR = ["advised", "all-linear", "all-linear-same-budget", "random-same-budget"]


@pytest.fixture
def study():
    return Study(name="s", arms=FOUR)


@pytest.fixture
def result(make_plan, known, study):
    find = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)), lambda arm, seed: 0.01 * seed * (len(arm) % 3))
    return conclude(study, [make_plan(study)], find, protocol_sha256="p", trained=9)


def test_a_result_fits_eighty_columns_and_loses_nothing(result):
    out = io.StringIO()
    show(Console(file=out, width=80), result)
    text = out.getvalue()
    assert "…" not in text
    for arm in FOUR:
        assert text.count(arm) >= 3
    assert "100%" in text
    assert f"verdict: {result.verdict}" in text
    assert "the untouched base: 0.100 at T=1" in text


def test_progress_is_a_line_a_training_where_there_is_no_terminal(make_plan, make_record, study):
    out = io.StringIO()
    view = AblationView(Console(file=out, width=120))
    plan = make_plan(study, impossible={"eva": "it does not converge"})
    view.planned([plan], 2, 30)
    job = plan.job("advised", "tune", 101, 0)
    view.begun(job)
    view.ended(job, make_record(job, 0.5), 3, 30, 90.0)
    view.ended(job, make_record(job, float("nan"), error="RuntimeError: no"), 4, 30, float("nan"))
    view.close()
    text = out.getvalue()
    assert "toy: advised is put to the test at 100 of 400 parameters" in text
    assert "toy: no arm eva: it does not converge" in text
    assert "[3/30, about 0:01:30 left] toy advised tune seed 101 lr 0.0001: 0.500 on choose" in text
    assert "failed: RuntimeError: no" in text


def test_on_a_terminal_the_table_is_redrawn_and_taken_away(make_plan, make_record, study, result):
    out = io.StringIO()
    view = AblationView(Console(file=out, width=120, force_terminal=True))
    plan = make_plan(study)
    view.planned([plan], 2, 30)
    job = plan.job("advised", "tune", 101, 0)
    view.begun(job)
    view.found(result)
    view.close()
    view.close()
    assert "toy advised (tune, seed 101, lr 0.0001)" in out.getvalue()
