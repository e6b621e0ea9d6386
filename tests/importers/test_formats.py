"""Every kind of log is told by its content, and read to the same rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from grpodyn.errors import UnreadableError, UsageError
from grpodyn.importers import read_log, understand
from grpodyn.importers.read import from_text

DATA = Path(__file__).parents[1] / "data"
TRACES = DATA / "traces"

ROWS = [{"step": s, "loss": 0.0, "reward": 0.25 * s, "grad_norm": 0.5, "kl": math.nan} for s in (1, 2, 3)]


def history(text: str, **options: object):
    log = from_text(text)
    assert log is not None
    return understand(log, **options)


def rewards(found) -> list[tuple[int, float]]:
    return [(row.step, row.values["reward"]) for row in found.rows if "reward" in row.values]


WANTED = [(1, 0.25), (2, 0.5), (3, 0.75)]


def test_trainer_state() -> None:
    summary = {"step": 3, "train_runtime": 9.0, "train_loss": 0.0}
    text = json.dumps({"global_step": 3, "max_steps": 3, "log_history": [*ROWS, summary]})
    assert "NaN" in text, "as transformers writes it: no strict JSON"
    found = history(text)
    assert rewards(found) == WANTED
    assert found.producer == "trainer_state.json"
    assert found.settings["max_steps"] == 3
    assert math.isnan(found.rows[0].values["kl"])


def test_list_of_rows_and_rows_line_by_line() -> None:
    assert rewards(history(json.dumps(ROWS))) == WANTED
    assert rewards(history("\n".join(json.dumps(row) for row in ROWS))) == WANTED


def test_printed_dicts_between_progress_bars() -> None:
    lines = [f" 33%|███▎      | {row['step']}/3 [00:01<00:02,  1.00s/it]\r{row!r}" for row in ROWS]
    lines.append("/usr/lib/python3/x.py:3: UserWarning: {not a dict}")
    found = history("\n".join(lines))
    assert rewards(found) == WANTED
    assert math.isnan(found.rows[0].values["kl"])


def test_dicts_without_a_step_are_numbered_and_it_is_said() -> None:
    text = "\n".join(repr({k: v for k, v in row.items() if k != "step"}) for row in ROWS)
    found = history(text)
    assert rewards(found) == WANTED
    assert any("names no step" in note for note in found.notes)


def test_openrlhf_lines() -> None:
    text = "\n".join(
        f"INFO ✨ Global step {s}: {{'policy_loss': 0.1, 'reward': {0.25 * s}, 'response_length': 100.0, 'kl': 0.01}}"
        for s in (1, 2, 3)
    )
    found = history(text)
    assert rewards(found) == WANTED
    assert found.rows[0].values["completions/mean_length"] == 100


def test_openrlhf_progress_bar() -> None:
    text = "\r".join(
        f"Train epoch [1/1]:  33%|###| {s}/3 [00:01<00:02, pg=0.1, rm={0.25 * s}, glen=100, kl=0.01, act_lr=1e-6]"
        for s in (1, 2, 3)
    )
    assert rewards(history(text)) == WANTED


def test_verl_line_with_colons_in_keys_and_a_worker_before_it() -> None:
    text = "\n".join(
        f"(TaskRunner pid=77) step:{s} - critic/score/mean:{0.25 * s} - actor/kl_loss:nan - "
        f"actor/lr:np.float64(1e-06) - val-core/openai/gsm8k/reward/mean@1:0.5"
        for s in (1, 2, 3)
    )
    found = history(text)
    assert rewards(found) == WANTED
    assert found.rows[0].values["learning_rate"] == 1e-6
    assert found.evaluations[0].values == {"val-core/openai/gsm8k/reward/mean@1": 0.5}


def test_notebook_table_as_it_is_copied() -> None:
    text = "Step\tTraining Loss\treward\tcompletions / mean_length\tkl\n" + "\n".join(
        f"{s}\t0.000000\t{0.25 * s:.6f}\t1,024.5\tNo Log" for s in (1, 2, 3)
    )
    found = history(text)
    assert rewards(found) == WANTED
    assert found.rows[0].values["completions/mean_length"] == 1024.5
    assert "kl" not in found.rows[0].values, "No Log is absent, not NaN"


def test_markdown_table() -> None:
    text = "| step | reward |\n|---|---|\n" + "\n".join(f"| {s} | {0.25 * s} |" for s in (1, 2, 3))
    assert rewards(history(text)) == WANTED


def test_columns_kept_apart_by_spaces() -> None:
    text = "Step    Training Loss    reward\n" + "\n".join(f"{s}    0.0    {0.25 * s}" for s in (1, 2, 3))
    assert rewards(history(text)) == WANTED


def test_public_traces() -> None:
    rising = understand(read_log(TRACES / "arithmetic_lora_100.metrics.jsonl"))
    assert len(rising.rows) == 100
    assert rising.rows[0].values["reward"] == 0.67625
    assert rising.rows[0].values["frac_reward_zero_std"] == pytest.approx(0.19)
    assert rising.rows[0].values["entropy"] == pytest.approx(0.77316, abs=1e-4)
    flat = understand(read_log(TRACES / "gsm8k_llama8b_flat.json"))
    assert [row.values["reward"] for row in flat.rows[:3]] == [1.0, 0.875, 1.0]
    assert flat.settings["num_generations"] == 8
    tools = understand(read_log(TRACES / "tool_calls_100_rising.log"))
    assert (len(tools.rows), tools.rows[3].step, tools.rows[3].values["reward"]) == (100, 4, 0.25)


def test_public_solve_counts_are_one_batch() -> None:
    found = understand(read_log(TRACES / "solve_counts_gsm8k_llama8b_base_G32.csv"))
    (batch,) = found.batches
    assert batch.reward.shape == (30, 32)
    assert batch.reward[0].sum() == 6


def test_wandb_offline_run() -> None:
    found = understand(read_log(DATA / "logs" / "wandb"))
    assert len(found.rows) == 41
    assert found.settings == {"learning_rate": 1e-6, "num_generations": 8, "beta": 0.04, "max_completion_length": 256}
    assert found.rows[0].values["reward"] == pytest.approx(0.21)
    assert math.isnan(found.rows[29].values["grad_norm"])
    assert [row.step for row in found.evaluations] == [10, 20, 30, 40]
    # A record of 50,000 characters spans two blocks of the file; the one after it is read.
    assert found.left_out["completions_text"] == "text"
    assert found.rows[40].values["reward"] == pytest.approx(0.7)


def test_wandb_file_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    data = (DATA / "logs/wandb/offline-run-demo/run-demo.wandb").read_bytes()
    cut = tmp_path / "run-demo.wandb"
    cut.write_bytes(data[:5000])
    found = understand(read_log(cut))
    assert 3 < len(found.rows) < 41
    assert any("cut off" in note for note in found.notes)


def test_wandb_file_with_a_flipped_bit_stops_there(tmp_path: Path) -> None:
    data = bytearray((DATA / "logs/wandb/offline-run-demo/run-demo.wandb").read_bytes())
    data[3000] ^= 1
    cut = tmp_path / "run-demo.wandb"
    cut.write_bytes(bytes(data))
    assert any("checksum" in note for note in understand(read_log(cut)).notes)


def test_tensorboard_events() -> None:
    found = understand(read_log(DATA / "logs" / "tensorboard"))
    assert len(found.rows) == 30
    assert found.rows[4].values["reward"] == pytest.approx(0.2, abs=1e-6)
    assert math.isnan(found.rows[19].values["grad_norm"])
    assert found.evaluations[0].values == {"eval/reward": 0.75}
    assert found.left_out == {"args/text_summary": "no scalar"}


def test_tensorboard_file_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    (source,) = (DATA / "logs" / "tensorboard").iterdir()
    data = bytearray(source.read_bytes())
    data[200] ^= 1
    broken = tmp_path / source.name
    broken.write_bytes(bytes(data))
    with pytest.raises(UnreadableError, match="checksum"):
        read_log(broken)


def test_completions_parquet_of_trl(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "step": [1] * 4 + [2] * 4,
            "prompt": ["a", "a", "b", "b", "a", "a", "c", "c"],
            "completion": ["x"] * 8,
            "accuracy": [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, np.nan, 0.0],
            "format": [0.5] * 8,
            "advantage": [1.0, -1.0, 0, 0, 0, 0, 0, 0],
        }
    )
    folder = tmp_path / "completions"
    folder.mkdir()
    frame.to_parquet(folder / "completions_00001.parquet")
    found = understand(read_log(folder))
    assert [batch.step for batch in found.batches] == [1, 2]
    assert found.reward_functions == ("accuracy", "format")
    assert found.batches[0].reward.tolist() == [[1.5, 0.5], [0.5, 0.5]]
    # A None of one function is left out of the sum, as TRL does.
    assert found.batches[1].reward.tolist() == [[1.5, 1.5], [0.5, 0.5]]
    assert found.batches[0].prompt_id[0] == found.batches[1].prompt_id[0]


def test_checkpoint_folder_holds_the_newest_history(tmp_path: Path) -> None:
    for step in (9, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        rows = [{"step": s, "reward": 0.5, "loss": 0.0} for s in range(1, step + 1)]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    assert len(understand(read_log(tmp_path)).rows) == 10


@pytest.mark.parametrize("content", ["", "hello\nworld\n", "{}", "[]", "[1, 2]", "\x00\x01\x02", '{"a": "b"}'])
def test_what_is_no_log_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(UnreadableError, match=r"x\.txt|nothing in this log"):
        understand(read_log(path))


def test_a_run_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UnreadableError, match="is a run already"):
        read_log(tmp_path)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not exist"):
        read_log(tmp_path / "nothing.json")


def test_a38_export_of_a_tracker() -> None:
    header = '"Step","run1 - train/reward","run1 - train/reward__MIN","run1 - train/reward__MAX","run1 - train/kl"'
    lines = [
        f'"{s}","{0.25 * s}","{0.2 * s}","{0.3 * s}","{"NaN" if s == 2 else "" if s == 1 else "Infinity"}"'
        for s in (1, 2, 3)
    ]
    found = history("\n".join([header, *lines]))
    assert rewards(found) == WANTED
    assert "kl" not in found.rows[0].values
    assert math.isnan(found.rows[1].values["kl"])
    assert math.isinf(found.rows[2].values["kl"])
    assert set(found.left_out) == {"run1 - train/reward__MIN", "run1 - train/reward__MAX"}


def test_a38_several_runs_must_be_chosen_from(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("Step,a - train/reward,b - train/reward\n1,0.25,0.1\n2,0.5,\n3,0.75,0.2\n")
    with pytest.raises(UsageError, match="a, b"):
        read_log(path)
    assert rewards(understand(read_log(path, run="a"))) == WANTED
    assert rewards(understand(read_log(path, run="b"))) == [(1, 0.1), (3, 0.2)]


def test_a38_sampled_history_is_recognised() -> None:
    rng = np.random.default_rng(0)
    steps = np.sort(rng.choice(np.arange(1, 5001), size=500, replace=False))
    found = history("\n".join(json.dumps({"step": int(s), "reward": 0.5, "loss": 0.1}) for s in steps))
    assert found.sampled
    assert len(found.rows) == 500, "nothing is filled in between"
    every = history("\n".join(json.dumps({"step": s, "reward": 0.5, "loss": 0.1}) for s in range(10, 5001, 10)))
    assert not every.sampled
