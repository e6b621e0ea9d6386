import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.errors import ConfigError
from grpodyn.rewards.code import code_complexity, code_of, code_syntax, code_tests, code_tests_fraction

RIGHT = "Here:\n```python\ndef add(a, b):\n    return a + b\n```\n"
WRONG = "```\ndef add(a, b):\n    return a - b\n```"
HALF = "```py\ndef add(a, b):\n    return max(a, b)\n```"
BROKEN = "```python\ndef add(a, b:\n```"
TESTS = ["assert add(1, 0) == 1", "assert add(2, 2) == 4"]


def test_a_batch_of_four():
    completions = [RIGHT, WRONG, HALF, BROKEN]
    columns = {"tests": [TESTS] * 4}
    assert code_tests([""] * 4, completions, **columns) == [1.0, 0.0, 0.0, 0.0]
    assert code_tests_fraction([""] * 4, completions, **columns) == [1.0, 0.5, 0.5, 0.0]
    assert code_syntax([""] * 4, completions, **columns) == [1.0, 1.0, 1.0, 0.0]
    assert code_complexity([""] * 4, completions, **columns) == [1.0, 1.0, 1.0, 0.0]


def test_the_order_of_completions_does_not_matter():
    completions, tests = [RIGHT, WRONG, BROKEN, RIGHT], [TESTS, TESTS, TESTS, ["assert add(1, 1) == 3"]]
    forward = code_tests([""] * 4, completions, tests=tests)
    backward = code_tests([""] * 4, completions[::-1], tests=tests[::-1])
    assert forward == backward[::-1] == [1.0, 0.0, 0.0, 0.0]


def test_programs_that_read_and_print_are_judged_by_cases():
    cases = [[{"input": "2 3", "output": "5"}, {"input": "1 1", "output": "2\n"}]] * 2
    codes = ["print(sum(map(int, input().split())))", "print(5)"]
    assert code_tests_fraction([""] * 2, codes, cases=cases) == [1.0, 0.5]


@pytest.mark.parametrize("empty", ["", "   \n", "```python\n```"])
def test_nothing_earns_nothing(empty):
    assert code_syntax([""], [empty]) == [0.0]
    assert code_complexity([""], [empty]) == [0.0]
    assert code_tests([""], [empty], tests=[["None"]]) == [0.0]


def test_complexity_falls_linearly_from_10_to_30():
    # McCabe number 1 + n of n ifs: 10 -> 1, 20 -> .5, 30 -> 0, 31 -> 0
    codes = ["x = 0\n" + "if x: pass\n" * n for n in (9, 19, 29, 30)]
    assert code_complexity([""] * 4, codes) == [1.0, 0.5, 0.0, 0.0]


def test_the_last_block_counts_and_messages_are_read():
    messages = [{"role": "user", "content": "```python\nx = 0\n```"}, {"role": "assistant", "content": RIGHT}]
    assert code_of(messages) == "def add(a, b):\n    return a + b\n"
    assert code_of("```python\nx = 1\n```\n~~~\n```python\nx = 2\n```") == "x = 2\n"
    assert code_of("```javascript\nlet x\n```") == "```javascript\nlet x\n```"


@pytest.mark.parametrize(
    "completion",
    [
        "```bash\npip install x\n```\nNow:\n```python\nx = 1\n```\n",
        "```python\nx = 1\n```\nIt prints:\n```text\n1\n```\n",
        '```Python title="a"\nx = 1\n```',
        "````python\nx = 1\n````",
    ],
)
def test_blocks_of_other_languages_are_no_programs(completion):
    assert code_of(completion) == "x = 1\n"


def test_tests_that_are_one_text_are_one_test():
    text = "assert add(1, 0) == 1\nassert add(2, 2) == 4"
    assert code_tests_fraction([""] * 2, [RIGHT, HALF], tests=[text] * 2) == [1.0, 0.0]


def test_a_case_without_output_is_an_error():
    with pytest.raises(ConfigError, match="expected a mapping of `input` and `output`"):
        code_tests([""], ["print(1)"], cases=[[{"input": "", "expected": "1"}]])


@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_whatever_is_written_gets_a_finite_reward(texts):
    for function in (code_syntax, code_complexity):
        rewards = function([""] * len(texts), texts)
        assert len(rewards) == len(texts)
        assert all(0 <= reward <= 1 for reward in rewards)


def test_an_example_without_tests_is_an_error():
    with pytest.raises(ConfigError, match="neither `tests` nor `cases`"):
        code_tests(["p"], [RIGHT])


def test_which_block_counts_and_none_of_the_thinking():
    two = f"{WRONG}\nBetter:\n{RIGHT}"
    tests = [TESTS] * 3
    given = [code_tests([""], [two], block=block, tests=tests[:1]) for block in ("last", "first", "only")]
    assert given == [[1.0], [0.0], [0.0]]
    assert code_of(f"<think>{RIGHT}</think>{WRONG}") == "def add(a, b):\n    return a - b\n"
    assert code_of(RIGHT, prompt="Add. <think>") == code_of(f"<think>{RIGHT}") == code_of(RIGHT, opened=True) == ""
