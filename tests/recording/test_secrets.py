"""What a run's manifest says of trainer, model and config holds no token and no key, wherever one stood."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.recording.secrets import WITHHELD, without_secrets

SECRET_NAMES = [
    "token", "hub_token", "HF_TOKEN", "push_to_hub_token", "wandb_api_key", "api_key", "apikey", "password",
    "db_password", "aws_secret_access_key", "secret", "client_secret", "private_key", "credentials", "auth_token",
    "Authorization", "use_auth_token",
]  # fmt: skip
HARMLESS_NAMES = [
    "eos_token", "pad_token", "bos_token", "num_tokens", "max_tokens", "tokenizer", "num_key_value_heads", "key_dim",
    "sort_key", "keys", "tokens", "token_type", "include_num_input_tokens_seen", "secretary",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert without_secrets({name: "abc"}) == {name: WITHHELD}
    assert without_secrets({name: None}) == {name: None}
    assert without_secrets({name: True}) == {name: True}


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_names_that_only_look_like_it(name: str) -> None:
    assert without_secrets({name: "abc"}) == {name: "abc"}


@pytest.mark.parametrize("value", ["hf_" + "a1" * 17, "sk-" + "a1" * 20, "ghp_" + "b2" * 18, "AKIA" + "Z" * 16])
def test_values_that_say_what_they_are(value: str) -> None:
    assert without_secrets({"note": f"use {value} here"}) == {"note": f"use {WITHHELD} here"}
    assert without_secrets([{"a": (value,)}]) == [{"a": [WITHHELD]}]


def test_a_manifest_given_to_a_bare_recorder(tmp_path: Path) -> None:
    given = {"config": {"hub": {"token": "do-not-write-me"}, "note": "hf_" + "x9" * 17, "steps": 3}}
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(tmp_path / "run", manifest=given).attach(net, optimizer) as recorder:
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        recorder.step()
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"do-not-write-me" not in content
            assert b"x9x9" not in content
    assert open_run(tmp_path / "run").manifest.config == {
        "hub": {"token": WITHHELD}, "note": WITHHELD, "steps": 3
    }  # fmt: skip
    assert given["config"]["hub"] == {"token": "do-not-write-me"}, "what was given is left alone"


def test_arguments_of_a_trainer_at_any_depth(tmp_path: Path, make_trainer) -> None:
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1, hub_token="do-not-write-me")
    trainer.args.model_init_kwargs = {"token": "nor-me", "torch_dtype": "float32"}
    trainer.train()
    text = (tmp_path / "run" / "run.json").read_text()
    assert "do-not-write-me" not in text
    assert "nor-me" not in text
    arguments = open_run(tmp_path / "run").manifest.trainer["arguments"]
    assert arguments["model_init_kwargs"] == {"token": WITHHELD, "torch_dtype": "float32"}
