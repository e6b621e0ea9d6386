import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.ablation.temperature import NAME, learn_temperature
from grpodyn.embedded import MODEL_DIR
from grpodyn.errors import ConfigError
from grpodyn.evaluation import exact_accuracy
from grpodyn.tasks import task


@pytest.fixture
def model():
    return AutoModelForCausalLM.from_pretrained(MODEL_DIR)


def test_the_scalar_is_the_temperature(model):
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    examples = task("arithmetic_format").split("choose").head(40)
    cooled = exact_accuracy(model, tokenizer, examples.prompts, examples.answers, temperature=0.5)
    learn_temperature(model)
    untouched = exact_accuracy(model, tokenizer, examples.prompts, examples.answers)
    with torch.no_grad():
        model.get_parameter(NAME).fill_(torch.tensor(2.0).log())
    assert exact_accuracy(model, tokenizer, examples.prompts, examples.answers) == pytest.approx(cooled, rel=1e-5)
    assert untouched != pytest.approx(cooled, rel=1e-2)


def test_nothing_else_is_trained(model):
    learn_temperature(model)
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == [NAME]
    ids = torch.tensor([[5, 6, 7]])
    model(input_ids=ids, labels=ids).loss.backward()
    assert model.get_parameter(NAME).grad.abs() > 0
    assert all(p.grad is None for name, p in model.named_parameters() if name != NAME)


def test_a_head_with_a_bias_has_no_such_arm(model):
    model.get_output_embeddings().bias = torch.nn.Parameter(torch.zeros(model.config.vocab_size))
    with pytest.raises(ConfigError, match="leave out the arm temperature-only"):
        learn_temperature(model)
