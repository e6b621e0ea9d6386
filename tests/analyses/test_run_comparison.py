from __future__ import annotations

import math
from typing import Any

import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build

MODEL = {"name": "tiny", "revision": None}
REFERENCE = {"source": "checkpoint", "sha256": {"model.safetensors": "aa"}}
DATASET = {"name": "arithmetic_format", "split": "train", "fingerprint": "f"}


def held_out(accuracy: float, greedy: float = 0.5, best: float = 0.1, temperature: float = 0.7) -> dict[str, float]:
    return {
        "heldout/accuracy": accuracy,
        "heldout/greedy_accuracy": greedy,
        "heldout/best_temperature": temperature,
        "heldout/best_temperature_accuracy": best,
    }


def config(**changes: Any) -> dict[str, Any]:
    grpo = {"learning_rate": 3e-4, "max_steps": 10, "output_dir": "runs/a", **changes.pop("grpo", {})}
    return {"model": {"path": "tiny"}, "grpo": grpo, "lora": None, "seed": 0, **changes}


@pytest.fixture
def trained(write_run, tensor_info):
    def make(name: str = "full", base: float = 0.05, after: float = 0.55, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "model": MODEL,
            "reference": REFERENCE,
            "dataset": DATASET,
            "config": config(),
            "metrics": {step: {"step_seconds": 0.5, "reward": 0.1} for step in range(1, 11)},
            "evaluations": [(0, held_out(base, best=0.06)), (10, held_out(after, greedy=0.7))],
            "tensors": [tensor_info("model.layers.0.up_proj.weight", 0, 8, 6)],
        }
        return write_run(name, **{**fields, **changes})

    return make


def compare(*runs: Any) -> Any:
    return registry.analysis("run_comparison").run(runs[0], others=runs[1:])


def test_gain_kept_is_relative_to_the_first_run(trained, tensor_info) -> None:
    factors = [
        tensor_info("model.layers.0.up_proj.weight", 0, 8, 6, source="lora", trainable=False),
        tensor_info("model.layers.0.up_proj.lora_A", 0, 2, 6, source="factor", kind="lora_factor"),
        tensor_info("model.layers.0.up_proj.lora_B", 0, 8, 2, source="factor", kind="lora_factor"),
    ]
    full = trained()
    lora = trained("lora", after=0.45, tensors=factors, lora={"r": 2, "lora_alpha": 32}, config=config(lora={"r": 2}))
    result = compare(full, lora)
    first, second = result.runs
    assert (first.gain, second.gain) == (pytest.approx(0.5), pytest.approx(0.4))
    assert (first.gain_kept, second.gain_kept) == (pytest.approx(1.0), pytest.approx(0.8))
    # Full: 8 · 6. LoRA: the factors, 2 · 6 + 8 · 2, not the effective row.
    assert (first.trainable_params, second.trainable_params) == (48, 28)
    assert (first.trains, second.trains) == ("all weights", "LoRA r=2 alpha=32")
    assert (first.steps, first.seconds) == (10, pytest.approx(5.0))
    assert (first.base.greedy, first.trained.greedy) == (0.5, 0.7)
    assert first.base.best_temperature_accuracy == pytest.approx(0.06)
    assert result.same_base is True
    assert any("no error bar" in warning for warning in result.warnings)


def test_differences_of_config_leave_out_where_a_run_lies(trained) -> None:
    other = config(grpo={"learning_rate": 1e-3, "output_dir": "runs/b"}, lora={"r": 16, "target_modules": ["q_proj"]})
    result = compare(trained(), trained("b", config=other))
    assert {d.key: d.values for d in result.differences} == {
        "grpo.learning_rate": (3e-4, 1e-3),
        "lora.r": (None, 16),
        "lora.target_modules": (None, ["q_proj"]),
    }


def test_without_configs_the_trainers_arguments_are_compared(trained) -> None:
    def script(rate: float) -> dict[str, Any]:
        return {"config": None, "trainer": {"arguments": {"learning_rate": rate, "output_dir": str(rate)}}}

    result = compare(trained("a", **script(1e-6)), trained("b", **script(1e-5)))
    assert [(d.key, d.values) for d in result.differences] == [("grpo.learning_rate", (1e-6, 1e-5))]


def test_the_saved_start_of_an_adapter_is_no_other_base(trained) -> None:
    adapter = {"source": "base", "sha256": {"start.safetensors": "cc"}}
    assert compare(trained(), trained("lora", reference=adapter)).same_base


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": {"source": "checkpoint", "sha256": {"model.safetensors": "bb"}}}, "do not share one base"),
        ({"dataset": {"name": "other"}}, "do not share one task"),
        ({"base": 0.2}, "bases' accuracies differ by 0.150"),
    ],
)
def test_other_bases_or_tasks_are_not_comparable(trained, changes, message) -> None:
    result = compare(trained(), trained("other", **changes))
    assert result.same_base is False
    assert any(message in warning for warning in result.warnings)


def test_a_base_known_from_different_places_goes_by_its_name(trained) -> None:
    result = compare(trained(), trained("lora", reference={"source": "base"}))
    assert result.same_base is True
    other = compare(trained("a"), trained("b", reference={"source": "base"}, model={"name": "another"}))
    assert other.same_base is False


def test_without_the_trainers_count_every_expert_of_a_stack_counts(trained, tensor_info) -> None:
    # 4 experts of 8 · 6, and a router of 4 · 6.
    tensors = [
        tensor_info("model.layers.0.experts.down_proj", 0, 8, 6, kind="expert", matrices=4),
        tensor_info("model.layers.0.gate.weight", 0, 4, 6, kind="router"),
    ]
    assert compare(trained(tensors=tensors)).runs[0].trainable_params == 4 * 48 + 24


def test_the_trainers_own_count_is_preferred(trained) -> None:
    assert compare(trained(model={**MODEL, "trainable_parameters": 1234})).runs[0].trainable_params == 1234


def test_an_unknown_base_is_not_called_the_same(trained) -> None:
    bare = {"reference": {}, "model": {}, "dataset": {}}
    result = compare(trained("a", **bare), trained("b", **bare))
    assert result.same_base is None
    assert any("do not say" in warning for warning in result.warnings)


def test_missing_evaluations_are_named(trained) -> None:
    result = compare(trained(), trained("bare", evaluations=[]))
    bare = result.runs[1]
    assert math.isnan(bare.gain)
    assert math.isnan(bare.gain_kept)
    assert any("bare lacks base accuracy" in warning and "trained accuracy" in warning for warning in result.warnings)
    only_base = compare(trained("base", evaluations=[(0, held_out(0.05))])).runs[0]
    assert only_base.missing == ("trained accuracy", "trained greedy_accuracy")


def test_cooling_that_explains_the_gain_is_said(trained) -> None:
    cooled = [(0, held_out(0.47, best=0.77, temperature=0.5)), (10, held_out(0.64))]
    result = compare(trained(evaluations=cooled))
    assert any("0.770 at temperature 0.5" in w and "cooling may explain it" in w for w in result.warnings)
    assert not any("cooling" in warning for warning in compare(trained("b")).warnings)


def test_empty_and_failed_runs_are_called_that(trained, write_run) -> None:
    empty = write_run("nothing", status="failed")
    result = compare(trained(), empty, trained("broken", status="failed"))
    assert [run.status for run in result.runs] == ["finished", "empty", "failed"]
    assert any("nothing was recorded" in warning for warning in result.warnings)
    assert any("broken is failed: 10 steps" in warning for warning in result.warnings)
    assert result.runs[1].trainable_params is None


def test_a_first_run_without_a_gain_gives_no_share(trained) -> None:
    result = compare(trained(after=0.01), trained("b"))
    assert math.isnan(result.runs[1].gain_kept)
    assert any("gained nothing" in warning for warning in result.warnings)


def test_the_last_evaluation_counts(trained) -> None:
    several = [(0, held_out(0.05)), (5, held_out(0.3)), (10, held_out(0.5))]
    run = compare(trained(evaluations=several)).runs[0]
    assert (run.trained.step, run.trained.accuracy) == (10, 0.5)


def seeded(trained, name: str, seed: int, after: float, **changes: Any) -> Any:
    return trained(name, after=after, config=config(**{"seed": seed, **changes}))


def test_a50_runs_that_differ_by_seed_alone_are_one_arm_and_its_spread_is_the_noise(trained) -> None:
    runs = [seeded(trained, f"a{seed}", seed, 0.50 + 0.05 * seed) for seed in range(3)]
    runs += [seeded(trained, f"b{seed}", seed, 0.53 + 0.05 * seed, grpo={"learning_rate": 1e-3}) for seed in range(3)]
    result = compare(*runs)
    assert [(arm.label, len(arm.runs)) for arm in result.arms] == [
        ("learning_rate=0.0003", 3),
        ("learning_rate=0.001", 3),
    ]
    (accuracy,) = [one for one in result.metrics.comparisons if one.metric == "heldout/accuracy"]
    assert accuracy.separation.difference.value == pytest.approx(0.03)
    assert not accuracy.separation.separable
    assert "not separable: 3 and 3 runs see a difference of" in accuracy.separation.verdict
    assert not any("no error bar" in warning for warning in result.warnings)


def test_arms_whose_seeds_agree_are_separable(trained) -> None:
    runs = [seeded(trained, f"a{seed}", seed, 0.50 + 0.001 * seed) for seed in range(3)]
    runs += [seeded(trained, f"b{seed}", seed, 0.70 + 0.001 * seed, grpo={"learning_rate": 1e-3}) for seed in range(3)]
    (accuracy,) = [one for one in compare(*runs).metrics.comparisons if one.metric == "heldout/accuracy"]
    assert accuracy.separation.separable
    assert accuracy.since == 10


def test_a50_a_log_of_two_seeds_counts_as_two_runs(trained) -> None:
    rows = [(step, {"reward": 0.1 * seed}) for seed in (1, 2) for step in range(1, 6)]
    mixed = record_rows(trained, rows)
    result = compare(mixed, trained("other"))
    assert any("holds 2 runs (its steps start over)" in warning for warning in result.warnings)
    ((_, bands),) = [pair for pair in result.metrics.bands if pair[0] == "reward"]
    assert len(bands[0].runs) == 2


def record_rows(trained, rows) -> Any:
    class Rows(list):  # the fixture asks a mapping for its items
        def items(self):
            return iter(self)

    return trained("mixed", metrics=Rows(rows), config=config(grpo={"learning_rate": 1e-3}))


def test_a48_runs_that_share_no_tensor_name_are_warned_of(trained, tensor_info) -> None:
    other = [tensor_info("model.language_model.layers.0.up_proj.weight", 0, 8, 6)]
    result = compare(trained(), trained("other", tensors=other))
    assert any("share no tensor name" in warning and "silently do nothing" in warning for warning in result.warnings)
    assert not any(
        "share" in warning and "tensor name" in warning for warning in compare(trained("a"), trained("b")).warnings
    )


def test_metrics_can_be_named(trained) -> None:
    result = registry.analysis("run_comparison").run(
        trained(), others=[trained("b", config=config(grpo={"beta": 0.1}))], metrics=["reward", "nothing"]
    )
    assert [one.metric for one in result.metrics.comparisons] == ["heldout/accuracy", "reward"]
    assert result.metrics.missing == ("nothing",)


def test_names_of_runs_are_no_markup(trained) -> None:
    runs = [seeded(trained, name, seed, 0.5) for seed, name in enumerate(("[red]a", "b"))]
    runs.append(seeded(trained, "c", 0, 0.5, grpo={"learning_rate": "[/red]"}))
    runs.append(seeded(trained, "d", 1, 0.5, grpo={"learning_rate": "[/red]"}))
    shown = CliRunner().invoke(build(), ["compare", *(str(run.path) for run in reversed(runs))])
    assert shown.exception is None
    assert "where arms left learning_rate=[/red]" in shown.output
