"""The command's path on runs and folders: resumed, interrupted, capped, sampled, and refused with a reason."""

from __future__ import annotations

import functools
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen3ForCausalLM
from typer.testing import CliRunner

from grpodyn.attribution import request as requests
from grpodyn.attribution import result, subject
from grpodyn.attribution.evaluators import ExactAnswers, SampledRewards, Scored
from grpodyn.attribution.request import Request, carry_out
from grpodyn.attribution.run import Plan, Watcher
from grpodyn.attribution.vllm_engine import VllmSamples, engine
from grpodyn.cli.app import build
from grpodyn.config import run as run_config
from grpodyn.errors import ConfigError, MissingDataError, UnreadableError, UsageError
from grpodyn.naming.inventory import take_inventory
from grpodyn.recording.reference import establish
from grpodyn.rewards import reward
from grpodyn.rewards.exact_match import exact_match
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.schema import ArraySpec
from grpodyn.trace.writer import TraceWriter
from tests.attribution.lines import from_lines
from tests.schema import must_fit

STRONG = 14.0


@pytest.fixture
def final(planting: Any, tmp_path: Path) -> Path:
    change = planting.plant(4, [({}, STRONG * planting.towards_answer)])
    for layer in (1, 8):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        change[name] = planting.base[name] * 1.001
    return planting.save(tmp_path / "final", change)


def asked(planting: Any, final: Path, heldout: Path, **options: Any) -> Request:
    return Request(base=planting.folder, final=final, prompts_file=heldout, **{"prompts": 60, "ranks": (1,), **options})


def test_cost_is_said_before_the_start_and_progress_after_each(planting, final, heldout, tmp_path) -> None:
    plans: list[Plan] = []
    made: list[int] = []
    found = carry_out(asked(planting, final, heldout), tmp_path, Watcher(plans.append, made.append))
    (plan,) = plans
    assert plan.evaluations >= found.evaluations
    assert plan.tokens > 0
    assert plan.prompts == 60
    assert plan.changed == 3
    assert plan.minutes > 0
    assert made == list(range(1, found.evaluations + 1))


def test_a_second_start_evaluates_nothing_and_finds_the_same(planting, final, heldout, tmp_path) -> None:
    first = carry_out(asked(planting, final, heldout), tmp_path, Watcher())
    made: list[int] = []
    second = carry_out(asked(planting, final, heldout), tmp_path, Watcher(evaluated=made.append))
    assert made == []
    same = {"created_at", "seconds"}
    assert first.model_dump(exclude=same) == second.model_dump(exclude=same)
    # Other prompts, or another final model, are other evaluations.
    carry_out(asked(planting, final, heldout, prompts=50), tmp_path, Watcher(evaluated=made.append))
    assert made


def test_stopped_at_any_moment_it_goes_on(planting, final, heldout, tmp_path) -> None:
    def stop_after(count: int) -> Watcher:
        def evaluated(made: int) -> None:
            if made == count:
                raise KeyboardInterrupt

        return Watcher(evaluated=evaluated)

    total = 0
    for count in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            carry_out(asked(planting, final, heldout), tmp_path, stop_after(count))
        total += count
    # A killed process may leave half a line.
    cache = tmp_path / "attribution_cache.jsonl"
    lines = cache.read_text().splitlines()
    assert len(lines) == total
    cache.write_text("\n".join(lines) + "\n" + lines[0][: len(lines[0]) // 2])
    made: list[int] = []
    resumed = carry_out(asked(planting, final, heldout), tmp_path, Watcher(evaluated=made.append))
    assert made[-1] == resumed.evaluations - total
    fresh = carry_out(asked(planting, final, heldout), _folder(tmp_path / "fresh"), Watcher())
    assert fresh.parts == resumed.parts


def test_the_live_model_is_left_as_it_was(planting, final, heldout, tmp_path, monkeypatch) -> None:
    subjects: list[Any] = []
    real = subject.of_folders
    monkeypatch.setattr(subject, "of_folders", lambda *a: subjects.append(real(*a)) or subjects[-1])
    carry_out(asked(planting, final, heldout), tmp_path, Watcher())
    base = Qwen3ForCausalLM.from_pretrained(planting.folder)
    live = dict(subjects[0].model.named_parameters())
    assert all(torch.equal(live[name], p) for name, p in base.named_parameters())


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_half_precision(planting, final, heldout, tmp_path, dtype) -> None:
    found = carry_out(asked(planting, final, heldout, dtype=dtype), tmp_path, Watcher())
    assert found.verdicts["layers"].parts == ("layer 4",)
    assert dtype in found.sources["evaluator"]


def test_an_adapter_as_the_final_weights(planting, heldout, tmp_path) -> None:
    base = Qwen3ForCausalLM.from_pretrained(planting.folder)
    change = planting.plant(6, [({}, STRONG * planting.towards_answer)])
    name = "model.layers.6.mlp.down_proj.weight"
    left, values, right = torch.linalg.svd(change[name] - planting.base[name], full_matrices=False)
    adapted = get_peft_model(base, LoraConfig(r=4, lora_alpha=4, target_modules=["down_proj"]))
    layer = adapted.base_model.model.model.layers[6].mlp.down_proj
    with torch.no_grad():
        layer.lora_A["default"].weight.copy_(right[:4])
        layer.lora_B["default"].weight.copy_(left[:, :4] * values[:4])
        for other in (1, 8):
            adapted.base_model.model.model.layers[other].mlp.down_proj.lora_B["default"].weight.fill_(1e-4)
    adapted.save_pretrained(tmp_path / "adapter")
    found = carry_out(asked(planting, tmp_path / "adapter", heldout), tmp_path, Watcher())
    # B is 0 in the nine other layers: they are no change.
    assert found.verdicts["layers"].parts == ("layer 6",)
    assert found.sources["changed_tensors"] == 3
    assert found.sources["lora"]


def manifest_of(planting: Any, **fields: Any) -> Manifest:
    digests = subject.FolderWeights(planting.folder).files.sha256()
    reference = {"path": str(planting.folder), "sha256": digests, "dtype": "float32", "tensors": {"checkpoint": 1}}
    return Manifest(**{"model": {"name": str(planting.folder)}, "reference": reference, **fields})


def recorded(run_dir: Path, planting: Any, final: Path | None, **fields: Any) -> Path:
    writer = TraceWriter.create(run_dir, manifest_of(planting, **fields))
    writer.close("finished")
    if final is not None:
        final.rename(run_dir / "model")
    return run_dir


def test_a_run_gives_base_and_final_itself(planting, final, heldout, tmp_path) -> None:
    run = recorded(tmp_path / "run", planting, final)
    found = carry_out(Request(run=run, prompts_file=heldout, prompts=60, ranks=()), run, Watcher())
    assert found.verdicts["layers"].parts == ("layer 4",)
    assert found.run_id == Manifest.read(run).run_id
    assert result.read(run / "attribution.json").verdict == found.verdict


def test_a_run_whose_base_is_another_is_refused(planting, final, heldout, tmp_path) -> None:
    run = recorded(tmp_path / "run", planting, final)
    other = planting.save(tmp_path / "other", {"model.norm.weight": planting.base["model.norm.weight"] + 1})
    with pytest.raises(UnreadableError, match="is not the base that"):
        carry_out(Request(run=run, base=other, prompts_file=heldout), run, Watcher())


def test_missing_weights_are_said_with_what_to_do(planting, final, heldout, tmp_path) -> None:
    bare = recorded(tmp_path / "bare", planting, None)
    with pytest.raises(MissingDataError, match=r"holds no trained weights.*--final"):
        carry_out(Request(run=bare, prompts_file=heldout), bare, Watcher())
    lost = recorded(
        tmp_path / "lost", planting, final, reference={"path": "/nowhere"}, model={"name": "/nowhere/model"}
    )
    with pytest.raises(MissingDataError, match="is not on this machine; give its folder with --base"):
        carry_out(Request(run=lost, prompts_file=heldout), lost, Watcher())
    with pytest.raises(MissingDataError, match="holds no weights"):
        carry_out(asked(planting, _folder(tmp_path / "empty"), heldout), tmp_path, Watcher())
    with pytest.raises(UsageError, match="names no task"):
        carry_out(Request(run=bare), bare, Watcher())


def test_the_same_weights_are_no_change(planting, heldout, tmp_path) -> None:
    same = planting.save(tmp_path / "same", {})
    with pytest.raises(MissingDataError, match="nothing was changed"):
        carry_out(asked(planting, same, heldout), tmp_path, Watcher())


def test_tokenizers_that_read_prompts_differently_are_refused(planting, final, heldout, tmp_path) -> None:
    tokenizer = json.loads((final / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
    (final / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(UnreadableError, match=r"read '.*' differently"):
        carry_out(asked(planting, final, heldout), tmp_path, Watcher())


def test_a_run_that_keeps_its_own_start_needs_no_checkpoint(planting, final, heldout, tmp_path) -> None:
    run = recorded(tmp_path / "run", planting, final, reference={"path": None, "tensors": {"base": 135}}, model={})
    (run / "base").mkdir()
    (run / "base" / "start.safetensors").write_bytes((planting.folder / "model.safetensors").read_bytes())
    found = carry_out(Request(run=run, prompts_file=heldout, prompts=60, ranks=()), run, Watcher())
    assert found.verdicts["layers"].parts == ("layer 4",)


def test_the_tokenizer_of_a_base_that_a_run_keeps_in_part_is_checked_too(planting, final, heldout, tmp_path) -> None:
    tokenizer = json.loads((final / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
    (final / "tokenizer.json").write_text(json.dumps(tokenizer))
    sources = {"path": str(planting.folder), "tensors": {"checkpoint": 134, "base": 1}}
    run = recorded(tmp_path / "run", planting, final, reference=sources)
    (run / "base").mkdir()
    norm = {"model.norm.weight": planting.base["model.norm.weight"]}
    save_file(norm, run / "base" / "start.safetensors")
    with pytest.raises(UnreadableError, match=r"read '.*' differently"):
        carry_out(Request(run=run, prompts_file=heldout, prompts=60), run, Watcher())


def traced(run_dir: Path, planting: Any, final: Path) -> Path:
    """A run with a row of its trained tensors, and what it recorded of their values."""
    model = Qwen3ForCausalLM.from_pretrained(planting.folder)
    inventory = take_inventory(model)
    facts = establish(inventory.stored, model.config, None, run_dir, 0).facts
    writer = TraceWriter.create(run_dir, manifest_of(planting, reference=facts))
    writer.declare_tensors(inventory.infos)
    writer.declare_arrays("tensors", {"update_norm": ArraySpec(("row", "tensor"))})
    writer.add_row("tensors", 1, {"update_norm": np.ones(len(inventory.infos))})
    writer.close("finished")
    final.rename(run_dir / "model")
    return run_dir


def test_a_base_whose_files_have_other_names_is_checked_by_its_values(planting, final, tmp_path) -> None:
    # No hash was recorded under these names: 20 KB a file divides the base into shards.
    run = traced(tmp_path / "run", planting, final)
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    for folder, weights in ((right, {}), (wrong, {"model.norm.weight": planting.base["model.norm.weight"] + 1})):
        planting.save(folder, weights)
        (folder / "model.safetensors").unlink()
        planting.model.save_pretrained(folder, max_shard_size="20KB")
    assert not any("verified" in note for note in subject.of_run(run, right, None, None, "cpu").notes)
    with pytest.raises(UnreadableError, match="tensors have other names, shapes or values than the run recorded"):
        subject.of_run(run, wrong, None, None, "cpu")


def test_a_base_that_nothing_can_be_compared_with_is_said_to_be_unverified(planting, final, tmp_path) -> None:
    run = recorded(tmp_path / "run", planting, final)
    planting.save(tmp_path / "shards", {})
    (tmp_path / "shards" / "model.safetensors").unlink()
    planting.model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    notes = subject.of_run(run, tmp_path / "shards", None, None, "cpu").notes
    assert any(note.startswith("the base was not verified: model-00001-of-") for note in notes)


# Sampling, and vLLM behind the same interface.


@pytest.mark.slow
def test_sampled_outcomes_agree_with_exact_ones(planting, final) -> None:
    model = Qwen3ForCausalLM.from_pretrained(final).eval()
    tokenizer = AutoTokenizer.from_pretrained(final, padding_side="left")
    examples = from_lines(40)
    exact = ExactAnswers(model, tokenizer).outcomes(examples)
    scored = Scored(((exact_match, 1.0),))
    sampled = SampledRewards(model, tokenizer, scored, samples=64, max_new_tokens=4, batch_size=40)
    outcomes = sampled.outcomes(examples)
    assert outcomes.mean == pytest.approx(exact.mean, abs=0.05)
    assert np.array_equal(outcomes.value, sampled.outcomes(examples).value)
    assert np.isnan(outcomes.greedy)
    assert sampled.tokens(examples) > 40 * 64 * 4


def test_the_whole_path_with_samples(planting, final, heldout, tmp_path) -> None:
    request = asked(planting, final, heldout, samples=4, max_tokens=4, prompts=30, ranks=(), null_draws=0)
    found = carry_out(request, tmp_path, Watcher())
    assert "mean of 4 samples" in found.sources["evaluator"]
    assert found.baseline is None
    assert found.verdict in ("localised", "too noisy")


def test_fewer_than_four_samples_tell_nothing(planting, final, heldout, tmp_path) -> None:
    with pytest.raises(ConfigError, match="at least 4"):
        carry_out(asked(planting, final, heldout, samples=2), tmp_path, Watcher())


def test_the_models_own_generation_config_decides_nothing(planting) -> None:
    tokenizer = AutoTokenizer.from_pretrained(planting.folder, padding_side="left")
    drawn = []
    for own in ({}, {"repetition_penalty": 5.0, "min_p": 0.9, "min_new_tokens": 4, "top_k": 1}):
        model = Qwen3ForCausalLM.from_pretrained(planting.folder).eval()
        model.generation_config.update(**own)
        torch.manual_seed(0)
        sampled = SampledRewards(model, tokenizer, Scored(((exact_match, 1.0),)), 4, 8)
        drawn.append(sampled._generate(from_lines(10).prompts))
    assert drawn[0] == drawn[1]


def test_what_decides_an_outcome_is_in_its_name(planting, tmp_path) -> None:
    model = Qwen3ForCausalLM.from_pretrained(planting.folder)
    tokenizer = AutoTokenizer.from_pretrained(planting.folder, padding_side="left")

    def named(function: Any, **settings: Any) -> str:
        return SampledRewards(model, tokenizer, Scored(((function, 1.0),)), **settings).name

    def own(code: str, folder: str) -> Any:
        # Two files of one name, each with a reward of one name.
        file = _folder(tmp_path / folder) / "mine.py"
        file.write_text(f"def brevity(completions, **_):\n    return [{code} for c in completions]\n")
        spec = spec_from_file_location("mine", file)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.brevity

    one, other, again = own("-len(c)", "one"), own("len(c)", "other"), own("-len(c)", "again")
    names = [
        named(exact_match),
        named(reward("exact_match", {"until": " "})),
        named(reward("exact_match", {"until": ","})),
        named(functools.partial(exact_match, until=" ")),
        named(one),
        named(other),
        named(exact_match, batch_size=8),
        *(VllmSamples(None, None, Scored(((one, 1.0),)), sampling=dict, dtype=d).name for d in ("bfloat16", "float32")),
    ]
    assert len(set(names)) == len(names) - 1
    # A partial and a reward of the catalogue with the same option are the same function.
    assert names[1].replace("exact_match", "") == names[3].replace("exact_match", "")
    assert named(one) == named(again) == names[4]
    assert "1·brevity" in names[4]
    assert '1·exact_match{"until": " "}' in names[1]


@pytest.mark.parametrize(("options", "kind"), [({}, ExactAnswers), ({"until": " "}, SampledRewards)])
def test_an_answer_with_options_has_no_exact_probability(planting, options, kind) -> None:
    # With `until` what runs on after the answer is right too, so that P(answer, then the end) is no mean of the reward.
    config = run_config.embedded([f"rewards={json.dumps([{'name': 'exact_match', 'options': options}])}"])
    found = subject.of_folders(planting.folder, planting.folder, None, "cpu")
    scored = requests._scored(config, found)
    assert type(requests._evaluator(Request(), config, scored, found)) is kind


def test_weighted_rewards_are_summed_and_checked() -> None:
    def lengths(completions: list[str], **_: Any) -> list[Any]:
        return [None if c == "" else len(c) for c in completions]

    scored = Scored(((exact_match, 2.0), (lengths, 0.5)))
    assert scored.rewards(["p"] * 3, ["a", "", "bb"], ["a", "a", "a"]).tolist() == [2.5, 0.0, 1.0]
    with pytest.raises(ConfigError, match="returned 1 numbers for 2 completions"):
        Scored(((lambda **_: [1.0], 1.0),)).rewards(["p", "q"], ["a", "b"], ["a", "b"])

    def needs_more(prompts: Any, completions: Any, level: Any) -> list[float]:
        return []

    with pytest.raises(ConfigError, match="cannot be called on held-out prompts"):
        Scored(((needs_more, 1.0),)).rewards(["p"], ["a"], ["a"])


class StandInEngine:
    """Does what vLLM does, with transformers: one live engine that weights are pushed into."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.pushed: list[str] = []
        self.resets = 0

    def apply_model(self, function: Any) -> list[Any]:
        class Loader:
            @staticmethod
            def load_weights(weights: Any) -> set[str]:
                live = dict(self.model.named_parameters())
                for name, value in weights:
                    live[name].data.copy_(value)
                    self.pushed.append(name)
                return set(self.pushed)

        return [function(Loader)]

    def reset_prefix_cache(self) -> None:
        self.resets += 1

    def generate(self, prompts: list[str], parameters: Any, use_tqdm: bool) -> list[Any]:
        scored = Scored(((exact_match, 1.0),))
        inner = SampledRewards(
            self.model, self.tokenizer, scored, parameters["n"], parameters["max_tokens"], seed=parameters["seed"]
        )
        torch.manual_seed(parameters["seed"])
        texts, ids = inner._generate(prompts)
        n = parameters["n"]

        class Output:
            def __init__(self, place: int) -> None:
                own = range(place * n, (place + 1) * n)
                self.outputs = [type("Completion", (), {"text": texts[i], "token_ids": ids[i]}) for i in own]

        return [Output(place) for place in range(len(prompts))]


def test_vllm_gets_only_what_differs_and_forgets_its_cache(planting, final, heldout, tmp_path, monkeypatch) -> None:
    model = Qwen3ForCausalLM.from_pretrained(planting.folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(planting.folder, padding_side="left")
    stand_in = StandInEngine(model, tokenizer)
    made = VllmSamples(stand_in, tokenizer, Scored(((exact_match, 1.0),)), 4, 4, sampling=dict)
    monkeypatch.setattr(requests, "_evaluator", lambda *_: made)
    request = asked(planting, final, heldout, backend="vllm", prompts=30, ranks=(), null_draws=0, leading=0)
    found = carry_out(request, tmp_path, Watcher())
    assert found.sources["evaluator"].startswith("vllm, mean of 4 samples")
    assert set(stand_in.pushed) == {
        f"model.layers.{i}.mlp.{m}_proj.weight" for i, m in ((1, "up"), (4, "down"), (8, "up"))
    }
    assert stand_in.resets > 0
    assert found.final.value > found.base.value


def test_without_vllm_the_way_out_is_said() -> None:
    with pytest.raises(UsageError, match="--backend hf"):
        engine("model", "float32")


# The command itself.


def run_command(*arguments: Any, code: int = 0) -> Any:
    outcome = CliRunner().invoke(build(), ["attribute", *map(str, arguments)], env={"COLUMNS": "80"})
    if code == 0 and outcome.exception is not None:
        raise outcome.exception
    assert outcome.exit_code == code
    return outcome


def test_the_command_prints_json_with_the_stable_keys(planting, final, heldout, tmp_path) -> None:
    arguments = ("--base", planting.folder, "--final", final, "--prompts-file", heldout, "--prompts", 60)
    out = run_command(*arguments, "-o", tmp_path / "out", "--json")
    found = json.loads(out.stdout)
    must_fit("attribute", found)
    assert {"base", "final", "parts", "truncation", "verdict", "evaluations"} <= found.keys()
    assert {"part", "kind", "keep_only", "put_back"} <= found["parts"][0].keys()
    for interval in (found["base"], found["parts"][0]["keep_only"], found["truncation"][0]["accuracy"]):
        assert interval.keys() == {"value", "low", "high", "level"}
    assert "at most" in out.stderr
    text = run_command(*arguments, "-o", tmp_path / "out").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "localised" in text
    assert "smallest share that these prompts could tell" in text


def test_ctrl_c_leaves_what_was_measured(planting, final, heldout, tmp_path, monkeypatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(requests, "carry_out", interrupted)
    out = run_command("--base", planting.folder, "--final", final, "--prompts-file", heldout, "-o", tmp_path, code=130)
    assert "the same command goes on" in " ".join(out.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a RUN"),
        (("--base", "a", "--final", "b"), "prompts must be named"),
        (("--base", "a", "--final", "b", "--task", "t", "--ranks", "1,x"), "--ranks '1,x'"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_command(*arguments)


def test_one_evaluation_is_not_enough(planting, final, heldout, tmp_path) -> None:
    with pytest.raises(UsageError, match="--max-evaluations 1"):
        carry_out(asked(planting, final, heldout, most=1), tmp_path, Watcher())


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
