"""Tasks whose rows come from data, on small files of the shape that the published ones have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpodyn.config.run import TaskConfig, from_dict
from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.rewards import reward
from grpodyn.tasks import SPLITS, Task, task, task_names
from grpodyn.tasks.source import Source
from grpodyn.tasks.splits import split_of
from grpodyn.training.data import held_out, task_of, text_task, train_prompts

GSM = [
    {"question": f"Ann has {n} pens.", "answer": f"She has <<{n}*1000={n}000>>.\n#### {n},000"} for n in range(1, 61)
]
ARC = [
    {
        "id": str(n),
        "question": f"Which is {n}?",
        "choices": {"text": ["a stone", "a magnet", f"leaf {n}", "wind"], "label": list("ABCD" if n % 2 else "1234")},
        "answerKey": "C" if n % 2 else "3",
    }
    for n in range(1, 41)
]
MBPP = [
    {
        "task_id": n,
        "text": f"Write a function that adds {n}.",
        "code": f"def add(x):\n    return x + {n}",
        "test_list": [f"assert add(1) == {1 + n}", f"assert add(2) == {2 + n}"],
        "test_setup_code": "",
        "challenge_test_list": [],
    }
    for n in range(1, 21)
]
OPENCODER = [
    {"seq_id": n, "instruction": f"Add {n}.", "output": "…", "code": "…", "entry_point": "add",
     "testcase": [f"assert add(1) == {1 + n}"]}
    for n in range(1, 21)
]  # fmt: skip


def write(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def made(name: str, folder: Path, rows: list[dict[str, Any]], **options: Any) -> Task:
    return task(name, options, Source(str(write(folder, rows))))


def everything(of: Task) -> dict[str, str]:
    return {p: a for split in SPLITS for p, a in zip(of.split(split).prompts, of.split(split).answers, strict=True)}


def test_gsm8k_has_the_number_as_its_answer_and_is_divided_by_hash(tmp_path) -> None:
    of = made("gsm8k", tmp_path, GSM)
    assert isinstance(of, Task)
    assert everything(of) == {row["question"]: str(1000 * n) for n, row in enumerate(GSM, 1)}
    for split in SPLITS:
        assert {split_of(prompt) for prompt in of.split(split).prompts} == {split}
    data = of.to_dataset("train")
    assert data.column_names == ["prompt", "answer", "solution"]
    assert made("gsm8k", tmp_path, GSM[::-1]).split("train") == of.split("train"), "the order of rows says nothing"


def test_a_published_test_is_what_is_reported_and_none_of_it_is_trained(tmp_path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    write(folder, GSM[:50], "train.jsonl")
    write(folder, GSM[45:], "test.jsonl")
    of = task("gsm8k", None, Source(str(folder)))
    sets = {split: set(of.split(split).prompts) for split in SPLITS}
    assert sets["report"] == {row["question"] for row in GSM[45:]}
    assert sum(map(len, sets.values())) == len(set().union(*sets.values())) == 60


def test_arc_is_lettered_anew_and_judged_by_letter_or_text(tmp_path) -> None:
    of = made("arc_challenge", tmp_path, ARC)
    assert set(everything(of).values()) == {"C"}
    row = of.to_dataset("train")[0]
    assert row["prompt"].splitlines()[1:3] == ["A. a stone", "B. a magnet"]
    given = reward("multiple_choice")(
        prompts=[""] * 3, completions=["The answer is C.", row["choices"][2], "B"], answer=["C"] * 3,
        choices=[row["choices"]] * 3,
    )  # fmt: skip
    assert given == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(("answer", "letter"), [(1, "B"), ("B", "B"), ("no", "B"), ("a", "C")])
def test_choices_of_any_data_set(tmp_path, answer, letter) -> None:
    rows = [{"q": "Is it?", "of": ["yes", "no", "a"], "right": answer}]
    of = made("multiple_choice", tmp_path, rows, question="q", choices="of", answer="right")
    assert list(everything(of).items()) == [("Is it?\nA. yes\nB. no\nC. a", letter)]


def test_choices_in_columns_of_their_own(tmp_path) -> None:
    rows = [{"question": "?", "a": "x", "b": "y", "answer": "B"}]
    assert list(everything(made("multiple_choice", tmp_path, rows, choices=["a", "b"])).values()) == ["B"]


@pytest.mark.parametrize(("name", "rows"), [("mbpp", MBPP), ("opencoder", OPENCODER)])
def test_programs_come_with_their_tests(tmp_path, name, rows) -> None:
    of = made(name, tmp_path, rows)
    row = of.to_dataset("train")[0]
    n = int(row["tests"][0].rpartition(" ")[2]) - 1
    assert row["prompt"].endswith(f"The code must pass tests such as:\nassert add(1) == {1 + n}")
    assert set(row) == {"prompt", "answer", "tests", "setup"}
    assert "such as" not in next(iter(everything(made(name, tmp_path, rows, show_tests=0))))


def test_puzzles_of_reasoning_gym_are_judged_by_their_generator() -> None:
    pytest.importorskip("reasoning_gym")
    of = task("reasoning_gym", {"generator": "chain_sum", "size": 30, "settings": {"max_terms": 3}})
    assert len(everything(of)) == 30
    rows = of.to_dataset("train").select(range(2))
    given = reward("reasoning_gym")(prompts=[""] * 2, completions=[rows[0]["answer"], "x"], entry=list(rows["entry"]))
    assert given[0] == 1.0 > given[1]
    with pytest.raises(UnknownNameError, match="did you mean 'chain_sum'"):
        task("reasoning_gym", {"generator": "chain_sun"}).split("train")
    with pytest.raises(ConfigError, match=r"refuses task\.options\.settings"):
        task("reasoning_gym", {"generator": "chain_sum", "settings": {"max_terms": 0}}).split("train")


@pytest.mark.parametrize(
    ("name", "rows", "options", "words"),
    [
        ("gsm8k", [{"question": "q", "answer": "no idea"}], {}, ["row 0", "'no idea'", "after '####'"]),
        ("gsm8k", [{"question": "q", "answer": None}], {}, ["row 0", "expected a number"]),
        ("gsm8k", [{"qestion": "q"}], {}, ["'question'", "did you mean 'qestion'?", "task.options.question"]),
        ("gsm8k", GSM, {"anwser": "x"}, ["task.options of gsm8k", "unknown key `anwser`", "did you mean 'answer'?"]),
        ("arc_challenge", [{**ARC[0], "answerKey": "E"}], {}, ["its answer is 'E'", "['A', 'B', 'C', 'D']"]),
        ("multiple_choice", [{"question": "?", "choices": "AB", "answer": "A"}], {}, ["'AB', expected a list"]),
        ("mbpp", [{**MBPP[0], "test_list": []}], {}, ["no test in 'test_list'"]),
        ("mbpp", MBPP, {"show_tests": -1}, ["`show_tests` is -1"]),
        ("mbpp", [{**MBPP[0], "text": None}], {}, ["row 0", "its text is None, expected text"]),
        ("gsm8k", [{"question": None, "answer": "#### 3"}], {}, ["row 0", "its question is None, expected text"]),
        ("arc_challenge", [{**ARC[0], "question": " "}], {}, ["its question is ' '"]),
    ],
)
def test_data_that_cannot_be_judged_is_refused(tmp_path, name, rows, options, words) -> None:
    with pytest.raises(ConfigError) as caught:
        made(name, tmp_path, rows, **options).split("train")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.jsonl", "", "holds no rows"),
        ("rows.jsonl", "{no json", "cannot be loaded: JSON parse error"),
        ("rows/rows.py", "import datasets", "cannot be loaded: Dataset scripts are no longer supported"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, name, content, words) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        task("gsm8k", source=Source(str(path if path.suffix != ".py" else path.parent))).split("train")


def test_what_a_task_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigError, match="reads no data set"):
        task("arithmetic_format", source=Source("x.jsonl"))
    with pytest.raises(ConfigError, match="has no options"):
        task("arithmetic_format", {"x": 1})
    with pytest.raises(ConfigError, match=r"set task\.dataset"):
        task("multiple_choice")
    assert {"gsm8k", "arc_challenge", "mbpp", "opencoder", "reasoning_gym"} <= set(task_names())


def test_a_config_names_task_data_template_and_conversation(tmp_path) -> None:
    path = write(tmp_path, GSM)
    plain = TaskConfig(name="gsm8k", dataset=str(path), template="Q: {prompt}")
    train = train_prompts(plain)
    assert all(prompt.startswith("Q: Ann") for prompt in train["prompt"])
    assert held_out(plain, "choose", 3).prompts[0].startswith("Q: Ann")
    chat = TaskConfig(name="gsm8k", dataset=str(path), chat=True, system="Be brief.")
    assert [message["role"] for message in train_prompts(chat)[0]["prompt"]] == ["system", "user"]
    assert "####" not in train_prompts(chat)[0]["prompt"][1]["content"], "the message says how to answer"
    bare = train_prompts(TaskConfig(name="gsm8k", dataset=str(path), chat=True))
    assert "####" in bare[0]["prompt"][0]["content"], "the task's own template"
    with pytest.raises(ConfigError, match="conversations"):
        text_task(chat)


def test_a_data_set_of_ones_own_is_divided_by_hash_if_asked(tmp_path) -> None:
    rows = [{"q": f"{n}+1=", "a": str(n + 1), "checks": ["assert True"], "level": n} for n in range(50)]
    config = TaskConfig(
        dataset=str(write(tmp_path, rows)), prompt="q", answer="a", columns={"tests": "checks"}, splits="hash"
    )
    train = train_prompts(config)
    assert set(train.column_names) == {"prompt", "answer", "tests", "level"}
    report = held_out(config, "report", 50)
    assert set(report.prompts).isdisjoint(train["prompt"])
    assert {split_of(prompt) for prompt in report.prompts} == {"report"}
    assert task_of(TaskConfig(dataset="x.jsonl")) is None


def test_only_answers_word_for_word_are_evaluated_unasked() -> None:
    base = {"model": "embedded"}
    assert from_dict(base | {"task": "arithmetic_format"}, "a").evaluate is not None
    assert from_dict(base | {"task": "gsm8k"}, "a").evaluate is None
