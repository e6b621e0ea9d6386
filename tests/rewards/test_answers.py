from __future__ import annotations

import time

import pytest

from grpodyn.rewards import reward
from grpodyn.rewards.answers import MARKS, candidates, marked_answers
from grpodyn.rewards.thinking import answer_part


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{12}", ["12"]),
        (r"so $\boxed{\frac{1}{2}}$.", [r"\frac{1}{2}"]),
        (r"\boxed{1} and \boxed{2}", ["1", "2"]),
        (r"\boxed{1", []),
        ("<answer> 12 </answer>", ["12"]),
        ("<answer>1</answer><answer>2</answer>", ["1", "2"]),
        ("<answer>1", []),
        (r"<answer>\boxed{12}</answer>", ["12"]),
        ("48/2 = 24\n#### 1,234", ["1,234"]),
        ("# 5\n#### 7", ["7"]),
        ("#### Step 1: add 3 and 4\n#### **2. Check**\n#### STEP 3\n#### Part 2 - sum\n#### 7", ["7"]),
        ("#### Solution\n#### What is asked:\n##### Step 1\nThe answer is 7.", ["7"]),
        ("#### **Final Answer**\n\\boxed{7}", ["7"]),
        ("#### Final Answer: 7", ["7"]),
        ("#### Method A\n#### Part of it\n#### Case 2", ["Method A", "Part of it", "Case 2"]),
        (
            "#### True\n#### B\n#### 12 apples\n#### pi/2\n#### Zoey is a knight",
            ["True", "B", "12 apples", "pi/2", "Zoey is a knight"],
        ),
        ("The answer is 12.", ["12"]),
        ("The answer is 3.5. Good.", ["3.5"]),
        ("The answer is: $1,234", ["$1,234"]),
        ("Final Answer: 12\nBye", ["12"]),
        ("**Final answer:** 12", ["12"]),
        ("**Final answer: 12**", ["12"]),
        ("the correct answer is (C).", ["(C"]),
        ("Answer: C", ["C"]),
        (r"The answer is \boxed{5}.", ["5"]),
        ("I have no answer to give.", []),
        ("", []),
    ],
)
def test_marks(text: str, found: list[str]) -> None:
    assert marked_answers(text) == found


def test_only_the_marks_that_are_asked_for() -> None:
    assert marked_answers(r"The answer is 5. \boxed{6}", ["boxed"]) == ["6"]


def test_what_counts_of_several_and_of_none() -> None:
    text = "#### 1\n#### 2\n#### 3"
    assert candidates(text, MARKS, "agree", "whole") == ["1", "2", "3"]
    assert candidates(text, MARKS, "first", "whole") == ["1"]
    assert candidates(text, MARKS, "last", "whole") == ["3"]
    assert candidates(" 7 ", MARKS, "agree", "whole") == ["7"]
    assert candidates("", MARKS, "agree", "whole") == candidates("7", MARKS, "agree", "nothing") == []


@pytest.mark.parametrize(
    ("text", "prompt", "answer"),
    [
        ("<think>4</think>5", "", "5"),
        ("4</think>5", "2+3=<think>\n", "5"),
        ("4", "2+3=<think>\n", ""),
        ("4", "2+3=", "4"),
        ("<think>4", "", ""),
        ("5<think>4", "", "5"),
        ("<think>a</think>5<think>b</think>6", "", "6"),
        ("<reasoning>4</reasoning><answer>5</answer>", "", "<answer>5</answer>"),
        ([{"role": "assistant", "content": "<think>4</think>5"}], [{"role": "user", "content": "2+3="}], "5"),
    ],
)
def test_thinking_is_passed_over(text, prompt, answer) -> None:
    assert answer_part(text, prompt) == answer


@pytest.mark.parametrize("name", ["numeric_match", "math_match", "numeric"])
def test_what_never_ends_its_thinking_says_nothing_where_the_chat_template_opens_it(name) -> None:
    prompts = [[{"role": "user", "content": "2+3="}]] * 3
    said = [
        [{"role": "assistant", "content": text}]
        for text in ("so the answer is 5. But", "so 4</think>5", r"\boxed{5}</think>I do not know")
    ]
    columns = {} if name == "numeric" else {"answer": ["5"] * 3}
    assert reward(name, {"opened": True})(prompts, said, **columns) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "line", ["1." + " " * 20_000 + "1", "*" * 20_000 + ":" * 20_000 + "x", "Step 1" + " *" * 20_000 + "x"]
)
def test_no_heading_takes_long(line: str) -> None:
    start = time.process_time()
    marked_answers(f"#### {line}")
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    "piece", ["<answer>", r"\boxed{", "the answer is ", "the answer is\n", "{", "#### ", "answer: "]
)
def test_no_text_takes_long(piece: str) -> None:
    start = time.process_time()
    marked_answers(piece * 5000)
    assert time.process_time() - start < 2
