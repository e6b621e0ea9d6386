from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

from grpodyn.embedded import MODEL_DIR
from grpodyn.embedded.bases import BASES
from grpodyn.embedded.build import figures
from grpodyn.embedded.defaults import GRPO
from grpodyn.embedded.tokenizer import CHARACTERS, build_tokenizer
from grpodyn.evaluation import score_answers
from grpodyn.tasks import SPLITS, task
from grpodyn.tasks.arithmetic_format import AnswerFormat, problems

REPORT = task("arithmetic_format").split("report")


@pytest.fixture(scope="module")
def base():
    return AutoModelForCausalLM.from_pretrained(MODEL_DIR).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(MODEL_DIR)


def test_shape_and_size(base):
    assert isinstance(base, Qwen3ForCausalLM)
    assert base.config.num_hidden_layers >= 6
    assert base.config.tie_word_embeddings
    assert base.lm_head.weight is base.model.embed_tokens.weight
    assert 1e6 <= base.num_parameters() <= 4e6
    assert base.dtype == torch.float32
    assert sum(file.stat().st_size for file in MODEL_DIR.iterdir()) <= 8_000_000


def test_sampling_draws_from_the_models_own_distribution():
    settings = json.loads((MODEL_DIR / "generation_config.json").read_text())
    assert (settings["do_sample"], settings["temperature"], settings["top_k"], settings["top_p"]) == (True, 1.0, 0, 1.0)


def test_shipped_tokenizer_is_the_built_one(tokenizer):
    built = build_tokenizer()
    assert tokenizer.get_vocab() == built.get_vocab()
    assert (tokenizer.padding_side, tokenizer.pad_token_id, tokenizer.eos_token_id) == ("left", 0, 1)
    assert tokenizer("1+1=")["input_ids"] == built("1+1=")["input_ids"]


@given(st.text(CHARACTERS, max_size=30))
def test_one_token_a_character_and_back(text):
    tokenizer = build_tokenizer()
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text


def test_every_text_of_the_task_is_known_and_short_enough(tokenizer):
    answers = [form.write(number) for form in AnswerFormat for number in range(-89, 199)]
    assert tokenizer.unk_token_id not in {i for ids in tokenizer(answers)["input_ids"] for i in ids}
    for split in SPLITS:
        examples = task("arithmetic_format").split(split)
        assert tokenizer.unk_token_id not in {i for ids in tokenizer(list(examples.prompts))["input_ids"] for i in ids}
        # One more for the end token, one more so that a completion that was cut off cannot equal an answer.
        assert max(map(len, examples.answers)) + 2 <= GRPO["max_completion_length"]


def test_what_the_base_can_do(base, tokenizer):
    known = figures(BASES["embedded"], base, tokenizer)
    # Right numbers on prompts it never saw, in all formats, in the wanted one least often; no temperature helps.
    assert known["right in any way"] > 0.95
    others = [known[f"right, {form}"] for form in ("plain", "bracketed", "marked")]
    assert min(others) > 0.2
    assert 0.03 < known["right, decimal"] < 0.12
    assert known["rewarded (decimal), greedy"] < 0.02
    (best,) = [value for name, value in known.items() if "best temperature" in name]
    assert known["right, decimal"] <= best < 0.15


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_exact_probabilities_agree_with_sampling(base, tokenizer, temperature):
    prompt, number = "23+45=", problems()["23+45="]
    answers = [form.write(number) for form in AnswerFormat]
    scores = score_answers(base, tokenizer, [prompt] * len(answers), answers, (temperature,))
    n = 3000
    ids = tokenizer([prompt] * n, return_tensors="pt")
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        out = base.generate(**ids, do_sample=True, temperature=temperature, top_k=0, top_p=1.0, max_new_tokens=8)
    texts = tokenizer.batch_decode(out[:, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    for answer, log_p in zip(answers, scores.log_probability[0], strict=True):
        p = np.exp(log_p)
        # Five standard deviations of a binomial share.
        assert abs(texts.count(answer) / n - p) < 5 * np.sqrt(p * (1 - p) / n), answer


def test_greedy_agrees_with_generation(base, tokenizer):
    prompts = list(REPORT.head(64).prompts)
    answers = [AnswerFormat.PLAIN.write(problems()[prompt]) for prompt in prompts]
    scores = score_answers(base, tokenizer, prompts, answers)
    out = base.generate(**tokenizer(prompts, return_tensors="pt"), do_sample=False, top_p=None, max_new_tokens=8)
    texts = tokenizer.batch_decode(out[:, 6:], skip_special_tokens=True)
    generated = [text == answer for text, answer in zip(texts, answers, strict=True)]
    assert scores.greedy.tolist() == generated
    assert sum(generated) > 0


def test_evaluation_leaves_random_numbers_alone(base, tokenizer):
    before = torch.get_rng_state(), random.getstate()
    score_answers(base, tokenizer, REPORT.prompts, REPORT.answers)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
