import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.ablation.cooling import CooledBase
from grpodyn.embedded import MODEL_DIR
from grpodyn.evaluation import exact_accuracy
from grpodyn.evaluation.skill_gain import skill_gain
from grpodyn.tasks import task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base():
    return AutoModelForCausalLM.from_pretrained(MODEL_DIR), AutoTokenizer.from_pretrained(MODEL_DIR)


@pytest.fixture(scope="module")
def examples():
    return task("arithmetic_format").split("choose").head(64)


def shifted(model, amount):
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        weight = other.get_parameter("model.layers.5.mlp.down_proj.weight")
        weight += amount * torch.randn_like(weight)
    return other


def test_interpolated_cooling_agrees_with_the_search(base, examples):
    model, tokenizer = base
    tuned = shifted(model, 0.03)
    accuracy = exact_accuracy(tuned, tokenizer, examples.prompts, examples.answers)
    fast = CooledBase(model, tokenizer, examples.prompts, 8).skill_gain(tuned, accuracy, examples)
    slow = skill_gain(model, tuned, tokenizer, examples, max_new_tokens=8)
    assert fast == pytest.approx(slow.skill_gain, abs=0.01)


def test_the_base_gains_nothing_over_itself(base, examples):
    model, tokenizer = base
    accuracy = exact_accuracy(model, tokenizer, examples.prompts, examples.answers)
    gain = CooledBase(model, tokenizer, examples.prompts, 8).skill_gain(model, accuracy, examples)
    assert gain == pytest.approx(0, abs=0.005)
