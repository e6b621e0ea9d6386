from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.config.run import ModelConfig
from grpodyn.embedded import MODEL_DIR, bases, cache
from grpodyn.embedded.pretraining import Recipe
from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.training.loading import load_model, load_tokenizer, model_location

NAME = "embedded-strings"


def head(mixture, prompts):
    answers = tuple(answers[:prompts] for answers in mixture.answers)
    return replace(mixture, prompts=mixture.prompts[:prompts], answers=answers)


@pytest.fixture(autouse=True)
def small_and_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "cache"))
    monkeypatch.setitem(bases.BASES, NAME, replace(bases.base(NAME), layers=1, recipe=Recipe(steps=2, batch_size=4)))
    # What two steps learn from and how little they learn is not looked at here; `test_build.py` builds with all of it.
    whole = bases.Base.mixture
    monkeypatch.setattr(bases.Base, "mixture", lambda self: head(whole(self), 64))
    monkeypatch.setattr("grpodyn.embedded.build.figures", lambda *_: {"right in any way": 0.0})
    cache._digest.cache_clear()
    yield
    cache._digest.cache_clear()


def test_the_shipped_model_is_not_copied(tmp_path):
    assert cache.model_dir("embedded") == MODEL_DIR
    assert not (tmp_path / "cache").exists()


def test_a_sibling_is_built_once_and_loads(caplog):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with caplog.at_level(logging.INFO, "grpodyn"):
        folder = cache.model_dir(NAME)
    assert "building the base model" in caplog.text
    assert "step 2 of 2" in caplog.text
    assert (torch.get_num_threads(), torch.get_rng_state().tolist()) == (threads, state.tolist())
    files = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    caplog.clear()
    assert cache.model_dir(NAME) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == files
    assert not caplog.records
    assert AutoModelForCausalLM.from_pretrained(folder).config.num_hidden_layers == 1
    assert AutoTokenizer.from_pretrained(folder).decode([3, 4, 5]) == "123"
    assert sorted(file.suffix for file in folder.parent.iterdir()) == ["", ".lock"]


def test_a_run_config_finds_it_by_name():
    config = ModelConfig(path=NAME)
    assert Path(model_location(config)) == cache.model_dir(NAME)
    assert load_model(config).config.num_hidden_layers == 1
    assert load_tokenizer(config)("1abcd=")["input_ids"]


@pytest.mark.parametrize("damage", ["a byte", "a missing file", "no index", "an index that is no object"])
def test_a_damaged_model_is_built_anew(damage, caplog):
    folder = cache.model_dir(NAME)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    if damage == "a byte":
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "a missing file":
        (folder / "tokenizer.json").unlink()
    elif damage == "no index":
        (folder / cache.INDEX).unlink()
    else:
        (folder / cache.INDEX).write_text("[1]")
    assert not cache.is_whole(folder)
    assert cache.model_dir(NAME) == folder
    assert "is damaged" in caplog.text
    assert cache.is_whole(folder)
    # The recipe decides the weights, to the bit on one machine.
    assert weights.read_bytes() == whole


def test_an_interrupted_build_leaves_nothing(monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("grpodyn.embedded.build.save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.model_dir(NAME)
    assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_removed(tmp_path):
    folder = cache.model_dir(NAME)
    left = folder.with_name(f"{folder.name}-abc{cache.UNFINISHED}")
    left.mkdir()
    (folder / "config.json").unlink()
    cache.model_dir(NAME)
    assert not left.exists()


def test_another_recipe_is_another_folder(monkeypatch):
    one = cache.model_dir(NAME)
    monkeypatch.setitem(bases.BASES, NAME, replace(bases.base(NAME), recipe=Recipe(steps=3, batch_size=4)))
    cache._digest.cache_clear()
    assert cache.model_dir(NAME) != one
    assert cache.is_whole(one)


def test_the_index_lists_every_file():
    folder = cache.model_dir(NAME)
    index = json.loads((folder / cache.INDEX).read_text())
    assert {*index, cache.INDEX} == {file.name for file in folder.iterdir()}


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError, match=rf"cannot be built into .*file.*{cache.CACHE}"):
        cache.model_dir(NAME)


def test_unknown_names_are_suggested():
    with pytest.raises(UnknownNameError, match="did you mean 'embedded-strings'"):
        cache.model_dir("embedded-string")


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv(cache.CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    assert cache.cache_dir() == tmp_path / "users" / "grpodyn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_dir() == tmp_path / "home" / ".cache" / "grpodyn"


@pytest.mark.slow
def test_of_several_processes_one_builds(tmp_path):
    program = (
        "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout)\n"
        "from dataclasses import replace\n"
        "from grpodyn.embedded import bases, cache\n"
        "from grpodyn.embedded.pretraining import Recipe\n"
        f"bases.BASES['{NAME}'] = replace(bases.base('{NAME}'), layers=1, recipe=Recipe(steps=2, batch_size=4))\n"
        f"print('at', cache.model_dir('{NAME}'))\n"
    )
    environment = os.environ | {cache.CACHE: str(tmp_path / "shared")}
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert sum("building the base model" in output for output in outputs) == 1
    assert len({output.splitlines()[-1] for output in outputs}) == 1
