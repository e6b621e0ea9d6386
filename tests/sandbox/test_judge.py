import pytest

from grpodyn.errors import ConfigError
from grpodyn.sandbox import Limits, Program, SandboxPool, StdioCase, find_walls, walls
from grpodyn.sandbox.inside.checker import lent
from grpodyn.sandbox.judge import NOT_RUN, TOO_LONG, judge

LIMITS = Limits(test_seconds=2.0)


def run(kind, code, *tests, setup="", cases=()):
    return judge(Program(code, tests, setup, cases), kind, LIMITS)


def verdicts(outcome):
    return [result.passed for result in outcome.results]


def test_each_test_is_judged_alone(kind):
    outcome = run(kind, "def double(x):\n    return 2 * x\n", "assert double(2) == 4", "assert double(2) == 5")
    assert verdicts(outcome) == [True, False]
    assert outcome.results[1].why == "AssertionError"


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("def f(x):\n    x.sort()\n", "x = [3, 1]\nf(x)\nassert x == [1, 3]"),
        ("def f(x):\n    x['a'] = 1\n", "x = {}\nf(x)\nassert x == {'a': 1}"),
        ("def f(n):\n    yield from range(n)\n", "assert list(f(3)) == [0, 1, 2]"),
        (
            "def f(n):\n    return (n, [n], {n}, {n: None}, 1.5, 'é', b'x', 2j, float('inf'))\n",
            "assert f(1) == (1, [1], {1}, {1: None}, 1.5, 'é', b'x', 2j, float('inf'))",
        ),
        ("def f():\n    return 2 ** 20000\n", "assert f() == 2 ** 20000"),
        (
            "class Stack:\n    def __init__(self):\n        self.items = []\n"
            "    def push(self, x):\n        self.items.append(x)\n",
            "s = Stack()\ns.push(1)\ns.push(2)\nassert s.items == [1, 2]",
        ),
        (
            "def f(d):\n    return d['missing']\n",
            "try:\n    f({})\nexcept KeyError:\n    pass\nelse:\n    raise AssertionError",
        ),
        (
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f():\n    return P(1, 2)\n",
            "assert f() == (1, 2)",
        ),
        ("LIMIT = 5\ndef f():\n    return LIMIT\n", "assert LIMIT == 5 and f() == LIMIT"),
        ("def f(a, *, b=1):\n    return a - b\n", "assert f(3, b=2) == 1"),
        ("def f():\n    return '\\ud800'\n", "assert f() == '\\ud800'"),
        ("def apply(g, x):\n    return g(x)\ndef inc(x):\n    return x + 1\n", "assert apply(inc, 1) == 2"),
    ],
)
def test_what_tests_usually_do_works_through_the_pipe(kind, code, test):
    outcome = run(kind, code, test)
    assert outcome.all_passed, outcome.results[0].why


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("def f(x):\n    return 0\ndef abs(x):\n    return 0\n", "assert abs(f(2) - 12.56) < 1e-3"),
        ("def f(x):\n    return 1\ndef sorted(x):\n    return 1\n", "assert sorted(f([2])) == sorted([1, 2])"),
        ("def f(x):\n    return 1\ndef isinstance(x, y):\n    return True\n", "assert isinstance(f(2), list)"),
        ("def len(x):\n    return 2\n", "y = f(2)\nassert len(y) == 2"),
        (
            "class math:\n    isclose = staticmethod(lambda *a: True)\ndef f(x):\n    return 0\n",
            "assert math.isclose(f(2), 3.14)",
        ),
    ],
)
def test_what_a_test_compares_with_is_python_s_own(kind, code, test):
    assert run(kind, code, test).passed == 0


def test_a_program_may_be_called_as_a_builtin_is(kind):
    code = "def sum(a, b):\n    return 6\n"
    check = "def check(candidate):\n    assert candidate(10, 15) == 6\n"
    assert run(kind, code, "assert sum(10, 15) == 6").all_passed
    assert run(kind, code, "check(sum)", setup=check).all_passed
    assert run(kind, "def re(x):\n    return x\n", "assert re(2) == 2").all_passed
    assert run(kind, "import math\ndef f():\n    return 3.0\n", "assert math.isclose(f(), 3)").all_passed


def test_no_test_takes_its_builtins_from_a_program():
    assert lent(["f", "__builtins__", "abs"], "", "assert abs(f(1)) == 1") == ["f"]
    assert lent(["f", "__builtins__", "abs"], "", "assert abs(1) == 1") == ["f", "abs"]
    assert lent(["f", "abs"], "", "assert f(:") == ["f"]


def test_a_test_may_build_what_it_asks_of(kind):
    # As MBPP's setup does for its trees.
    code = (
        "class Node:\n    def __init__(self, v):\n        self.v, self.left = v, None\n"
        "def height(node):\n    return 0 if node is None else 1 + height(node.left)\n"
    )
    setup = "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)\n"
    assert run(kind, code, "assert height(root) == 3", setup=setup).all_passed


def test_setup_defines_a_check(kind):
    setup = "def check(candidate):\n    assert candidate(3) == 9\n    assert candidate(0) == 0\n"
    assert run(kind, "def sq(x):\n    return x * x\n", "check(sq)", setup=setup).all_passed


def test_a_program_that_ends_is_started_anew_for_the_next_test(kind):
    code = "import os\ndef f(x):\n    if x == 2: os._exit(1)\n    return x\n"
    outcome = run(kind, code, "assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3")
    assert verdicts(outcome) == [True, False, True]


def test_a_program_that_hangs_is_not_waited_for_twice(kind):
    outcome = run(kind, "def f(x):\n    while x == 1: pass\n    return x\n", "f(0)", "f(1)", "assert f(2) == 2")
    assert verdicts(outcome) == [True, False, False]
    assert outcome.results[1].why == "the program took too long"
    assert "not run" in outcome.results[2].why
    printing = run(kind, "while True: pass\n", cases=(StdioCase("1", "1"),) * 20)
    assert [result.why for result in printing.results[:2]] == [TOO_LONG, NOT_RUN]


def test_what_is_printed_is_compared_line_by_line(kind):
    code = "n = int(input())\nfor i in range(n):\n    print(i, end=' \\n')\nprint()\n"
    good, bad = StdioCase("2\n", "0\n1\n"), StdioCase("2\n", "0\n2\n")
    outcome = run(kind, code, cases=(good, bad))
    assert verdicts(outcome) == [True, False]
    assert run(kind, "print(1)\nraise ValueError\n", cases=(StdioCase("", "1\n"),)).passed == 0


@pytest.mark.parametrize("code", ["def f(:\n", "x = 1\n  y = 2\n", "0777\n", "return 1\n"])
def test_what_is_no_python_is_said(kind, code):
    outcome = run(kind, code, "assert True")
    assert not outcome.parses
    assert outcome.results[0].why == "no Python: " + ("IndentationError" if "y" in code else "SyntaxError")


def test_branches_are_counted_as_mccabe_does(kind):
    # 1 + if + elif + for + (and) + (comprehension: loop, condition) = 7
    code = (
        "def f(x):\n    if x and 1:\n        pass\n    elif x:\n        pass\n    for _ in x:\n        pass\n"
        "    return [i for i in x if i]\n"
    )
    assert run(kind, code, "None").branches == 7


def test_a_pool_keeps_the_order_and_runs_side_by_side(left_behind):
    programs = [Program(f"def f():\n    return {i}\n", (f"assert f() == {i if i % 3 else -1}",)) for i in range(12)]
    with SandboxPool(workers=3, limits=LIMITS) as pool:
        outcomes = pool.judge(programs)
    assert [outcome.all_passed for outcome in outcomes] == [bool(i % 3) for i in range(12)]
    assert left_behind() == []


def test_no_walls_is_a_refusal_unless_insisted_on(monkeypatch):
    tried = dict.fromkeys((walls.Kind.BUBBLEWRAP, walls.Kind.NAMESPACES), "not permitted")
    monkeypatch.setattr(walls, "_tried", lambda: tried)
    with pytest.raises(ConfigError, match=r"bubblewrap: not permitted; namespaces: not permitted.*Install bubblewrap"):
        find_walls()
    accepted = find_walls(allow_missing=True)
    assert accepted.kind is walls.Kind.LIMITS_ONLY
    assert "the network is open" in accepted.missing


def test_walls_say_what_they_do_not_hold(kind):
    assert any("memory" in gap for gap in walls.Walls.of(kind).missing)


def test_limits_alone_judge_too(left_behind):
    outcome = judge(Program("def f():\n    return 1\n", ("assert f() == 1",)), walls.Kind.LIMITS_ONLY, LIMITS)
    assert outcome.all_passed


def test_nothing_to_judge_by_and_senseless_limits_are_errors():
    with pytest.raises(ConfigError, match="`tests` or `cases`"):
        Program("x = 1")
    with pytest.raises(ConfigError, match="processes is 0"):
        Limits(processes=0)
