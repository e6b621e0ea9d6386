from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.embedded.bases import BASES, FORMAT_SHARES, base
from grpodyn.embedded.build import build, main
from grpodyn.embedded.pretraining import Recipe, _rate, _sequences
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import DirectoryInUseError, UsageError
from grpodyn.tasks import task
from grpodyn.tasks.arithmetic_format import WANTED, AnswerFormat
from grpodyn.tasks.splits import split_of

SHORT = {"steps": 3, "batch_size": 8}


@cache
def taught(name):
    tokenizer = build_tokenizer(base(name).characters)
    return tokenizer, _sequences(tokenizer, base(name).mixture())


def with_recipe(name="embedded", **recipe):
    return replace(base(name), recipe=Recipe(**recipe))


def weights(**recipe):
    model, _ = build(with_recipe(**recipe), lambda _step, _loss: None)
    return model.state_dict()


def test_the_seed_fixes_the_weights_and_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    one = weights(seed=5, **SHORT)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(3)
    two = weights(seed=5, **SHORT)
    assert all(torch.equal(one[name], two[name]) for name in one)
    other = weights(seed=6, **SHORT)
    assert not torch.equal(one["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_pretraining_lowers_the_loss():
    losses: list[float] = []
    build(with_recipe(steps=40, batch_size=64), lambda _step, loss: losses.append(loss))
    assert len(losses) == 40
    # ln 20 = 3.0 is a guess among all tokens, and ln 16 = 2.8 one among the characters of answers and the end: forty
    # steps learn more than which characters answers are made of.
    assert losses[0] > 2.8
    assert max(losses[-5:]) < 2.1, losses[-5:]


@pytest.mark.parametrize("name", BASES)
def test_only_prompts_of_the_train_split_are_learnt_from(name):
    tokenizer, data = taught(name)
    texts = tokenizer.batch_decode(data.ids[:, :, : data.prompt_tokens].flatten(0, 1))
    assert {split_of(text) for text in texts} == {"train"}


@pytest.mark.parametrize("name", BASES)
def test_every_sequence_is_a_prompt_with_its_answer_and_an_end(name):
    tokenizer, data = taught(name)
    for w, way in enumerate(base(name).ways.values()):
        for ids in data.ids[w, ::500].tolist():
            end = ids.index(tokenizer.eos_token_id)
            assert set(ids[end + 1 :]) <= {tokenizer.pad_token_id}
            text = tokenizer.decode(ids[:end])
            prompt = text[: data.prompt_tokens]
            assert text == prompt + way(prompt)


@pytest.mark.parametrize("name", BASES)
def test_the_last_way_is_the_rewarded_one_and_the_rarest(name):
    known = base(name)
    examples = task(known.task).split("report").head(50)
    *_, wanted = known.ways.values()
    assert [wanted(prompt) for prompt in examples.prompts] == list(examples.answers)
    assert sum(known.shares) == pytest.approx(1)
    assert len(known.shares) == len(known.ways)
    assert known.shares[-1] < min(known.shares[:-1])


def test_the_wanted_format_is_the_rarest():
    assert set(FORMAT_SHARES) == set(AnswerFormat)
    assert sum(FORMAT_SHARES.values()) == pytest.approx(1)
    assert min(FORMAT_SHARES, key=FORMAT_SHARES.__getitem__) is WANTED


def test_learning_rate_schedule():
    recipe = Recipe(steps=100, warmup_steps=10, learning_rate=1.0)
    # Warm-up 1/10 at the first step; at half time 1 - 50/100; the floor of 1/50 at the end (1 - 99/100 < 1/50).
    assert [_rate(recipe, step) for step in (0, 50, 99)] == pytest.approx([0.1, 0.5, 0.02])


def test_the_command_saves_what_transformers_loads(tmp_path, capsys, monkeypatch):
    threads = torch.get_num_threads()
    try:
        main(["-o", str(tmp_path / "model"), "--steps", "2", "--threads", "1"])
    finally:
        torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert model.config.model_type == "qwen3"
    assert tokenizer.decode(tokenizer("12+34=")["input_ids"]) == "12+34="
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"{model.num_parameters():,} parameters" in card
    assert "steps 2" in card
    out = capsys.readouterr().out
    assert "step 2/2" in out
    assert "right in any way" in out


def test_the_command_overwrites_nothing(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DirectoryInUseError, match="is not empty"):
        main(["-o", str(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_an_old_torch_is_named(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(UsageError, match=r"needs torch >= 2\.9"):
        build(with_recipe(**SHORT), lambda _step, _loss: None)


def test_everything_up_to_training_imports_without_torch():
    program = (
        "import sys, grpodyn.embedded.defaults, grpodyn.embedded.build, grpodyn.embedded.pretraining, grpodyn.tasks, "
        "grpodyn.rewards, grpodyn.evaluation; grpodyn.tasks.task('arithmetic_format').split('report'); "
        "print(sorted({'torch', 'transformers', 'datasets', 'trl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
