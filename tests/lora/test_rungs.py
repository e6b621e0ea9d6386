"""Advice on what was tested: patch test over movement, ablation over patch test, each in its own words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpodyn.ablation import results
from grpodyn.attribution import result
from grpodyn.attribution.result import Attribution
from grpodyn.attribution.state import ROUNDED
from grpodyn.errors import SchemaError, UsageError
from grpodyn.lora import apply, placement, policy, stored
from grpodyn.lora.advice import Advice, advise
from grpodyn.lora.modules import LinearModule
from grpodyn.lora.policy import Options
from tests.lora.built import SEVEN, ablation, attribution, part


@pytest.fixture
def tested(make_run: Any) -> Any:
    def make(found: Attribution | None = None, ablated: results.Ablation | None = None, **options: Any) -> Any:
        run = make_run(**options)
        if found is not None:
            result.write(run.path / result.FILE, found)
        if ablated is not None:
            ablated.write(run.path)
        return run

    return make


def text_of(advice: Advice) -> str:
    return json.dumps(advice.to_json(), ensure_ascii=False)


def layers_of(advice: Advice) -> set[int]:
    return {int(module.name.split(".")[2]) for module in advice.modules}


def test_a_localised_change_is_a_hypothesis_with_an_ablation(tested: Any) -> None:
    run = tested(attribution())
    advice = advise(run, Options())
    assert advice.rung == 2
    assert layers_of(advice) == {3}
    assert advice.where == "layer 3"
    assert "stored in layer 3" in advice.verdict
    assert "hypothesis" in advice.verdict
    # What was advised is what is tested.
    asked, ablate = advice.next_experiment.commands
    assert asked.endswith("--json > advised.json")
    assert "--advice advised.json" in ablate
    # Words of rung 3 stay on rung 3.
    assert "confirmed" not in text_of(advice)
    assert text_of(advice).count("contribution") == text_of(advice).count("movement is not contribution")
    assert advice.peft_config["layers_to_transform"] == [3]
    assert "0.05 of the gain" in advice.smallest_difference
    assert advice.conflicts[0].here.startswith("what was tested on this run")


def test_what_a_placement_saves_is_counted_or_marked_estimated(tested: Any) -> None:
    savings = advise(tested(attribution()), Options()).savings
    assert savings is not None
    assert savings.practical
    known = {item.what: item for item in savings.items}
    assert known["training pass"].how == "counted"
    assert known["training pass"].advised < known["training pass"].all_linear
    assert {known["step time"].how, known["peak memory"].how} == {"estimated"}
    assert known["adapter file"].share == pytest.approx(5 / 6)


@pytest.mark.slow
def test_without_a_practical_saving_all_linear_is_kept(tested: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpodyn.lora.savings.PRACTICAL", 2.0)
    advice = advise(tested(attribution()), Options())
    assert len(advice.modules) == 42
    assert "no practical saving" in advice.verdict
    assert "keep all-linear" in advice.verdict
    # For retention the smaller adapter is the point, whatever it saves.
    assert layers_of(advise(tested(attribution(), name="other"), Options(goal="retention"))) == {3}


@pytest.mark.parametrize(
    ("word", "named", "said"),
    [
        ("distributed", (), "the evidence is flat"),
        ("flat", (), "gained nothing that could be attributed"),
        ("too noisy", (), "could not tell parts apart"),
        ("redundant", ("layer 1", "layer 3"), "can each stand in for the other"),
        ("joint", ("layer 1", "layer 3"), "work only together"),
        ("harmful", ("layer 2",), "works against the gain"),
        ("localised", ("embeddings",), "out of LoRA's reach"),
    ],
)
def test_other_verdicts_keep_the_default_and_say_why(tested: Any, word: str, named: tuple[str, ...], said: str) -> None:
    advice = advise(tested(attribution(word, named)), Options())
    assert advice.rung == 2
    assert said in advice.verdict
    assert len(advice.modules) == 42
    assert {m.rank for m in advice.modules} == {16}
    assert advice.savings is None
    if named == ("embeddings",):
        assert any("embeddings hold" in warning for warning in advice.warnings)
    if word == "too noisy":
        assert "--prompts 2000" in advice.next_experiment.commands[0]


def test_under_a_budget_what_holds_nothing_gives_way_first(tested: Any) -> None:
    effects = {0: (0.0, 0.0), 1: (0.02, 0.01), 2: (0.2, 0.2), 3: (0.5, 0.5), 4: (0.0, 0.02), 5: (0.2, 0.2)}
    run = tested(attribution("distributed", (), layers=effects))
    half = advise(run, Options(max_fraction=0.5))
    # Layers 0, 1 and 4, of which putting back may cost nothing, in the order of how little they hold.
    assert layers_of(half) == {2, 3, 5}
    assert "layer 0 left out; layer 4 left out; layer 1 left out" in half.verdict
    assert advise(run, Options(max_fraction=0.84)).where == "layers 1, 2, 3, 4, 5"
    quarter = advise(run, Options(max_fraction=0.25))
    assert quarter.trainable_params <= 0.25 * quarter.all_linear_params
    assert 3 in layers_of(quarter)
    assert "hold least for their size" in quarter.verdict


RANK_FIRST = "alone asks for them at a lower rank"


@pytest.mark.parametrize("lost", [0.04, 0.12, 0.4])
def test_a_lower_rank_gives_way_before_a_place_whatever_a_part_costs(tested: Any, lost: float) -> None:
    effects = {i: (0.1, lost if i == 3 else 0.02) for i in range(6)}
    run = tested(attribution("distributed", (), layers=effects, types=dict.fromkeys(SEVEN, (0.1, 0.04))))
    quarter = advise(run, Options(max_params=89_088 // 4))
    assert len(quarter.modules) == 42
    assert {m.rank for m in quarter.modules} == {4}
    assert "rank 16 → 4" in quarter.verdict
    # The printed command asks for what was asked for: without the limit it would write another adapter.
    assert f" --max-params {89_088 // 4} --apply " in quarter.next_experiment.commands[0]
    fraction = advise(run, Options(max_fraction=0.34))
    assert {m.rank for m in fraction.modules} == {16}
    assert any(f"--max-params 22272 {RANK_FIRST}" in line for line in fraction.warnings)
    # Where a place takes nearly all, rank 8 everywhere is offered; where the rank was asked for, no other is.
    nearly = advise(run, Options(max_fraction=0.84))
    assert any(f"--max-params {89_088 // 2} {RANK_FIRST}" in line for line in nearly.warnings)
    assert not any(RANK_FIRST in line for line in advise(run, Options(max_fraction=0.84, rank=16)).warnings)
    # A tenth of all-linear is less than rank 4 everywhere.
    assert not any(RANK_FIRST in line for line in advise(run, Options(max_fraction=0.1)).warnings)


def test_under_a_limit_a_lower_rank_goes_before_the_named_part_but_for_retention(tested: Any) -> None:
    # 89,088 parameters are all 42 modules at rank 16; layer 3 alone takes a sixth of that.
    run = tested(attribution())
    lower = advise(run, Options(max_params=89_087))
    assert (len(lower.modules), lower.max_rank) == (42, 8)
    assert "stored in layer 3; under the limit all linear modules at a lower rank go before a place" in lower.verdict
    assert "no practical saving" not in lower.verdict
    kept = advise(run, Options(goal="retention", max_params=89_087))
    assert layers_of(kept) == {3}
    assert kept.max_rank == 16
    smaller = advise(run, Options(goal="retention", max_params=89_088 // 6 - 1))
    assert layers_of(smaller) == {3}
    assert smaller.max_rank == 8
    assert "(budget: rank 16 → 8): this run's change is stored in layer 3" in smaller.verdict
    lowest = advise(run, Options(goal="retention", max_params=4 * 89_088 // (16 * 6)))
    assert (layers_of(lowest), lowest.max_rank) == ({3}, 4)
    assert any("rank 4 is what the budget leaves" in warning for warning in lowest.warnings)
    # An adapter of the named layer alone is put to the test as it is; the first and last layers are another question.
    assert "--advice advised.json" in " ".join(kept.next_experiment.commands)


def test_a_low_rank_is_no_help_where_a_fraction_or_a_rank_is_asked_for(tested: Any) -> None:
    effects = dict.fromkeys(range(6), (0.1, 0.03))
    run = tested(attribution("distributed", (), layers=effects, types=dict.fromkeys(SEVEN, (0.1, 0.04))))
    both = advise(run, Options(max_fraction=0.25, max_params=10**9))
    assert {m.rank for m in both.modules} == {16}
    tight = advise(run, Options(max_params=89_088 // 8))
    assert {m.rank for m in tight.modules} == {4}
    assert len(tight.modules) < 42
    held = advise(run, Options(rank=16, max_params=89_088 // 4))
    assert {m.rank for m in held.modules} == {16}
    for advice in (tight, held):
        assert not any(RANK_FIRST in line for line in advice.warnings)


@pytest.mark.parametrize(
    ("word", "parts"),
    [("flat", False), ("too noisy", True), ("harmful", False), ("distributed", False)],
)
def test_what_tells_no_part_from_another_leaves_none_out(tested: Any, word: str, parts: bool) -> None:
    found = attribution(word, ())
    run = tested(found if parts else found.model_copy(update={"parts": ()}))
    smaller = advise(run, Options(max_params=60_000))
    assert smaller.rung == 1
    assert len(smaller.modules) == 42
    assert {m.rank for m in smaller.modules} == {8}
    assert any("tells no part from another" in warning for warning in smaller.warnings)
    with pytest.raises(UsageError, match="no adapter that the evidence supports"):
        advise(run, Options(max_fraction=0.25))


def test_what_was_not_tested_does_not_give_way(tested: Any) -> None:
    found = attribution("distributed", (), types={})
    run = tested(found.model_copy(update={"parts": found.of_partition("layers")}))
    # Layers alone were tested: layers give way whole, and no module type does.
    half = advise(run, Options(max_fraction=0.5))
    assert {m.name.rsplit(".", 1)[-1] for m in half.modules} == set(SEVEN)
    assert 3 in layers_of(half)


@pytest.mark.slow
def test_redundant_parts_do_not_both_give_way(tested: Any) -> None:
    effects = {i: (0.95, 0.02) if i in (1, 4) else (0.0, 0.0) for i in range(6)}
    run = tested(attribution("redundant", ("layer 1", "layer 4"), layers=effects))
    assert layers_of(advise(run, Options(max_fraction=0.34))) == {1, 4}
    assert layers_of(advise(run, Options(max_fraction=0.17))) in ({1}, {4})


@pytest.mark.slow
def test_module_types_give_way_first_where_the_verdict_is_about_them(tested: Any) -> None:
    types = {name: (0.8, 0.8) if name == "down_proj" else (0.0, 0.0) for name in SEVEN}
    flat = dict.fromkeys(range(6), (0.2, 0.2))
    run = tested(attribution("localised", ("down_proj",), layers=flat, types=types, leading="modules"))
    advice = advise(run, Options(max_fraction=0.3))
    assert {m.name.rsplit(".", 1)[-1] for m in advice.modules} == {"down_proj"}
    assert len(advice.modules) == 6
    assert advice.peft_config["target_modules"] == ["down_proj"]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ({1: 0.99, 2: 1.0}, 16),
        ({1: 0.2, 4: 0.5, 8: 0.7, 16: 0.97}, 16),
        # None of the ranks tried keeps the gain: twice the largest.
        ({1: 0.2, 8: 0.5, 16: 0.8}, 32),
        ({}, 16),
    ],
)
def test_truncation_is_a_floor_for_the_rank(tested: Any, ranks: dict[int, float], expected: int) -> None:
    advice = advise(tested(attribution("distributed", (), ranks=ranks)), Options())
    assert {m.rank for m in advice.modules} == {expected}


def test_no_rank_is_read_off_a_truncation_that_rounding_undid() -> None:
    # By its numbers rank 4 keeps .97 of the gain; but what was evaluated is not a change of rank 4.
    found = attribution("distributed", (), ranks={1: 0.5, 4: 0.97})
    assert stored.of(found).rank_floor == 4
    rounded = found.model_copy(update={"notes": ("another", f"{ROUNDED} 98 % of a change of this size")})
    assert stored.of(rounded).rank_floor is None


@pytest.mark.slow
def test_a_budget_goes_below_the_floor_with_a_warning_and_never_below_four(tested: Any) -> None:
    held = dict.fromkeys(range(6), (0.2, 0.2))
    low = tested(attribution("distributed", (), layers=held, ranks={1: 0.99, 2: 1.0}), name="low")
    assert stored.of_run(low.path).rank_floor == 4
    tight = advise(low, Options(max_params=12_000))
    assert {m.rank for m in tight.modules} == {4}
    assert not any("is below the" in warning for warning in tight.warnings)
    high = tested(attribution("distributed", (), layers=held, ranks={4: 0.5, 16: 0.97}), name="high")
    for limit, rank in ((60_000, 8), (20_000, 4), (5_000, 4)):
        smaller = advise(high, Options(max_params=limit))
        assert {m.rank for m in smaller.modules} == {rank}
        assert any(f"rank {rank} is below the 16" in warning for warning in smaller.warnings)
    asked = advise(high, Options(rank=8))
    assert any("rank 8 is below the 16" in warning for warning in asked.warnings)


def test_a_servers_ladder_is_honoured(tested: Any) -> None:
    run = tested(attribution("distributed", (), ranks={4: 0.5, 16: 0.97}))
    assert advise(run, Options(rank_ladder=(8, 32, 64))).max_rank == 32
    assert advise(run, Options(rank_ladder=(4, 8))).max_rank == 8


def test_nothing_that_fits_is_an_error_with_the_smallest(tested: Any) -> None:
    with pytest.raises(UsageError, match="smallest possible"):
        advise(tested(attribution()), Options(max_params=10))


@pytest.mark.slow
def test_query_and_key_alone_are_never_advised(tested: Any) -> None:
    types = {name: (0.5, 0.5) if name in ("q_proj", "k_proj") else (0.0, 0.0) for name in SEVEN}
    flat = dict.fromkeys(range(6), (0.2, 0.2))
    run = tested(attribution("localised", ("q_proj", "k_proj"), layers=flat, types=types, leading="modules"))
    assert len(advise(run, Options()).modules) == 42
    half = advise(run, Options(max_fraction=0.5))
    assert {m.name.rsplit(".", 1)[-1] for m in half.modules} > {"q_proj", "k_proj"}
    with pytest.raises(UsageError, match="smallest possible"):
        advise(run, Options(max_fraction=0.1))


@pytest.mark.slow
def test_a_gain_that_a_temperature_gives_too_is_said(tested: Any) -> None:
    advice = advise(tested(attribution(baseline={"temperature": 0.5, "accuracy": 0.77})), Options())
    assert any("the gain may be confidence only" in warning for warning in advice.warnings)


def test_a_confirmed_ablation_is_the_advice(tested: Any) -> None:
    advice = advise(tested(attribution("distributed", ()), ablation("confirmed")), Options())
    assert advice.rung == 3
    assert layers_of(advice) == {3}
    assert advice.trainable_params == 7424
    assert "confirmed" in advice.verdict
    assert advice.training.learning_rate == 3e-6
    assert "1e-06, 3e-06, 9e-06" in advice.training.basis
    assert "8 times in 10" in advice.smallest_difference
    seconds = next(item for item in advice.savings.items if item.how == "measured" and item.unit == "s")
    assert (seconds.advised, seconds.all_linear) == (8.0, 10.0)
    assert any("kept 0.97 of all-linear's gain" in item.statement for item in advice.evidence)
    # What an ablation trained goes into the next config as it was.
    section = apply.lora_section(advice.peft_config)
    assert section["layers_to_transform"] == [3]
    assert section["r"] == 8


@pytest.mark.slow
def test_a_refuted_advice_goes_back_to_all_linear(tested: Any) -> None:
    advice = advise(tested(attribution(), ablation("refuted")), Options())
    assert advice.rung == 3
    assert len(advice.modules) == 42
    assert "advised, which was put to the test, is refuted" in advice.verdict


@pytest.mark.parametrize("trained", [True, False])
def test_no_limit_leads_back_to_what_was_refuted(tested: Any, trained: bool) -> None:
    found = ablation("refuted")
    if not trained:
        found = replace(found, arms=(found.arms[0], replace(found.arms[1], seeds=(), learning_rate=math.nan)))
    run = tested(attribution(), found)
    smaller = advise(run, Options(max_params=50_000))
    assert smaller.rung == 1
    assert len(smaller.modules) == 42
    assert any("refuted advised" in warning for warning in smaller.warnings)
    with pytest.raises(UsageError, match="give --max-params"):
        advise(run, Options(max_fraction=0.25))
    assert len(advise(run, Options()).modules) == 42


@pytest.mark.slow
def test_an_ablation_that_does_not_separate_supports_nothing(tested: Any) -> None:
    advice = advise(tested(attribution(), ablation("not separable", needs=34)), Options())
    assert advice.rung == 2
    assert any("not separable" in item.statement for item in advice.evidence)
    assert advice.next_experiment.commands[0].endswith("--seeds 34")


@pytest.mark.slow
def test_an_ablation_beyond_the_budget_is_said_and_left(tested: Any) -> None:
    run = tested(attribution(), ablation("confirmed"))
    for options, why in (
        (Options(max_params=4000), "more than --max-params 4000"),
        (Options(rank=16), "has rank 8, not the --rank 16"),
        (Options(method="dora"), "of the method lora, not dora"),
        (Options(rank_ladder=(16, 32)), "not all on the server's ladder"),
        (Options(max_fraction=0.1), "more than --max-fraction 0.1"),
    ):
        advice = advise(run, options)
        assert advice.rung == 2
        assert any(why in warning for warning in advice.warnings), why


@pytest.mark.slow
def test_evidence_above_a_rung_is_not_looked_at(tested: Any) -> None:
    run = tested(attribution(), ablation("confirmed"))
    assert [advise(run, Options(), highest_rung=rung).rung for rung in (1, 2, 3)] == [1, 2, 3]


def test_a_damaged_file_is_an_error_that_names_it(tested: Any) -> None:
    run = tested()
    (run.path / result.FILE).write_text("{")
    with pytest.raises(SchemaError, match=r"attribution\.json is no attribution"):
        advise(run, Options())
    (run.path / result.FILE).write_text('{"schema_version": 99}')
    with pytest.raises(SchemaError, match="has version 99"):
        advise(run, Options())


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = attribution(baseline=None, ranks={})
    unknown = found.model_copy(update={"resolution": math.nan})
    result.write(tmp_path / result.FILE, unknown)
    again = result.read(tmp_path / result.FILE)
    assert math.isnan(again.resolution)
    assert again.parts == found.parts


def test_a_block_of_layers_shares_what_it_holds_evenly() -> None:
    wide = part("layers 0-3", 0.4, 0.4, "layers", layers=(0, 1, 2, 3), stack="model.layers")
    found = attribution().model_copy(update={"parts": (wide,)})
    layers = stored.of(found).layers
    assert {name: held.share for name, held in layers.items()} == {f"model.layers.{i}": 0.1 for i in range(4)}


def test_where_says_which_modules_in_words() -> None:
    model = [LinearModule(f"m.layers.{i}.{leaf}", 4, 4) for i in range(3) for leaf in ("q_proj", "up_proj", "o_proj")]
    no_q = [m for m in model if m.leaf != "q_proj"]
    assert placement.where(no_q, model) == "all layers; without q_proj"
    assert placement.where([m for m in no_q if ".1." in m.name], model) == "layer 1; without q_proj"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "dora", "rslora"])
def test_every_method_is_proven_on_a_placement(tested: Any, method: Any) -> None:
    advice = advise(tested(attribution()), Options(method=method, max_fraction=0.2))
    assert policy.DEFAULT_RANK in {m.rank for m in advice.modules}
    assert advice.peft_config["use_dora"] == (method == "dora")
    assert advice.trainable_params <= 0.2 * advice.all_linear_params
