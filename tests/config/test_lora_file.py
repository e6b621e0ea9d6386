from __future__ import annotations

import json

from grpodyn.config.lora_file import read_lora

# As PEFT 0.21 saves an adapter's config, shortened.
SAVED = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "somewhere",
    "inference_mode": True,
    "auto_mapping": None,
    "peft_version": "0.21.2",
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
    "layers_pattern": None,
    "rank_pattern": {},
}


def test_what_describes_a_saved_adapter_is_left_out(tmp_path) -> None:
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps(SAVED))
    # inference_mode in particular would freeze the adapter.
    read = read_lora(path)
    assert read.learning_rate is None
    assert read.lora == {
        "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], "rank_pattern": {},
    }  # fmt: skip


def test_advice_holds_the_same_config(tmp_path) -> None:
    bare, advice = tmp_path / "bare.json", tmp_path / "advice.json"
    bare.write_text(json.dumps(SAVED))
    advice.write_text(json.dumps({"verdict": "…", "peft_config": SAVED, "training": {"learning_rate": 9e-5}}))
    assert read_lora(advice).lora == read_lora(bare).lora
    assert read_lora(advice).learning_rate == 9e-5
