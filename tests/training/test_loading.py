from __future__ import annotations

import pytest

from grpodyn import embedded
from grpodyn.config.run import ModelConfig
from grpodyn.errors import ConfigError
from grpodyn.training.loading import load_model, load_tokenizer, model_location


def test_the_embedded_model_has_a_name_of_its_own() -> None:
    assert model_location(ModelConfig(path="embedded")) == str(embedded.MODEL_DIR)


@pytest.mark.parametrize("path", ["./absent", "/absent/model", "~/absent-model", "a/b/c"])
def test_a_folder_that_is_absent_is_not_looked_for_on_the_hub(path: str) -> None:
    with pytest.raises(ConfigError, match=r"is no folder; give a folder .* hub name"):
        model_location(ModelConfig(path=path))


def test_a_hub_name_is_passed_on() -> None:
    assert model_location(ModelConfig(path="Qwen/Qwen2.5-0.5B")) == "Qwen/Qwen2.5-0.5B"


def test_a_folder_without_a_model_says_so(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"without a config\.json"):
        load_model(ModelConfig(path=str(tmp_path)))


def test_what_transformers_refuses_becomes_a_sentence(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no-such-architecture"}')
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_model(ModelConfig(path=str(tmp_path)))


def test_the_dtype_asked_for_is_the_dtype_loaded() -> None:
    model = load_model(ModelConfig(path="embedded", dtype="bfloat16"))
    assert {str(p.dtype) for p in model.parameters()} == {"torch.bfloat16"}


def test_the_tokenizer_pads_on_the_left() -> None:
    tokenizer = load_tokenizer(ModelConfig(path="embedded"))
    assert tokenizer.padding_side == "left"
    assert tokenizer.pad_token_id is not None
