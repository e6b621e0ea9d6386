"""The page that is made from blocks: what it holds, what it escapes, what it never fetches. No kernel is started."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from grpodyn import figures, registry
from grpodyn.reporting import Heading, Page, Sentence, Table, Verdict
from grpodyn.reporting.blocks import MIME, Command, Picture
from grpodyn.reporting.choosing import choose
from grpodyn.reporting.gathering import Section
from grpodyn.reporting.html import render
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run, open_run
from grpodyn.trace.writer import TraceWriter
from tests.simulation.whole_run import write_whole_run

HOSTILE = "<script>alert('x')</script><img src=http://evil.example/a onerror=alert(1)>{{ 7*7 }}${x}</style>"


class Tags(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def section(*blocks: Any) -> Section:
    found = Section("convergence", title="Convergence")
    for block in blocks:
        bundle = block._repr_mimebundle_()
        data = dict(bundle[MIME])
        if data["kind"] == "picture":
            data["page"] = bundle["image/svg+xml"]
        if data["kind"] == "verdict":
            found.verdicts.append(data)
        found.parts.append(data)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_whole_run(
        tmp_path_factory.mktemp("page") / "r", layers=2, steps=12, model={"name": HOSTILE}, dataset={"name": HOSTILE}
    )


@pytest.fixture(scope="module")
def page(run: Run) -> str:
    svg = "<svg xmlns='http://www.w3.org/2000/svg'/>"
    everything = section(
        Heading(HOSTILE),
        Sentence(HOSTILE),
        Sentence(HOSTILE, missing=True),
        Command(HOSTILE),
        Verdict(HOSTILE, HOSTILE, "warning", because=(HOSTILE,)),
        Verdict("Second?", "Yes.", "critical"),
        Table(HOSTILE, ("", HOSTILE), ((HOSTILE, HOSTILE),), folded=True),
        Picture("n", HOSTILE, HOSTILE, svg, svg),
    )
    everything.parts.insert(0, {"kind": "prose", "text": "## Under a heading\n\n<b>no tag</b>"})
    everything.failed = HOSTILE
    return render(HOSTILE, [run], [everything], [("group_size", HOSTILE)])


def test_text_out_of_a_run_stays_text(page: str) -> None:
    tags = Tags(page)
    assert not tags.of("script")
    assert page.count("<style>") == page.count("</style>") == 1
    assert all("onerror" not in attributes for _, attributes in tags.tags)
    assert "{{ 7*7 }}" in page
    assert not tags.of("b"), "a notebook's Markdown holds no HTML"
    assert [image["src"] for image in tags.of("img") if not str(image["src"]).startswith("data:")] == []


def test_backticks_are_code_and_what_is_in_them_is_text(run: Run) -> None:
    told = render("r", [run], [section(Sentence("set `<b>`, or `a"), Sentence("`ablate` does it"))], [])
    assert "set `&lt;b&gt;`, or `a" in told, "an odd number is no pair"
    assert "<p><code>ablate</code> does it</p>" in told


def test_nothing_is_fetched_and_nothing_runs(page: str) -> None:
    tags = Tags(page)
    for tag, attributes in tags.tags:
        for name in ("src", "href", "srcset", "action", "poster"):
            value = str(attributes.get(name, "#"))
            assert value.startswith(("#", "data:")), (tag, value)
    (policy,) = [meta for meta in tags.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy["content"]).startswith("default-src 'none'; img-src data:;")
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_structure_for_keyboard_and_screen_reader(page: str) -> None:
    tags = Tags(page)
    (root,) = tags.of("html")
    assert root["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(tags.of(landmark)) == 1, landmark
    first_link = tags.of("a")[0]
    assert first_link["class"] == "skip"
    ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in tags.of("a"):
        assert str(link["href"])[1:] in ids, link
    for labelled in tags.of("section"):
        assert labelled["aria-labelledby"] in ids
    assert all(image.get("alt") for image in tags.of("img"))
    assert len(tags.of("caption")) == len(tags.of("table"))
    assert {cell["scope"] for cell in tags.of("th")} == {"col", "row"}
    assert all(scrolled.get("tabindex") == "0" for scrolled in tags.of("div") if scrolled.get("class") == "scroll")
    assert ":focus-visible" in page
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page


def test_headings_skip_no_level(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in Tags(page).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), levels


def test_the_gravest_verdict_comes_first(page: str) -> None:
    summary = page[page.index('id="summary"') : page.index('id="convergence"')]
    assert summary.index("Second?") < summary.index("look here")
    assert "· " not in summary.split("verdicts")[0]
    for word in ("fault", "look here"):
        assert word in summary, "a verdict's level is a word, not a colour alone"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr("grpodyn.reporting.page.display", found.append)
    return found


def test_what_a_run_lacks_is_a_sentence(tmp_path: Path, shown: list[Any]) -> None:
    TraceWriter.create(tmp_path / "empty", Manifest()).close("finished")
    page = Page([tmp_path / "empty"])
    page.show(page.runs[0], "rank_course", figures.ranks)
    (sentence,) = shown
    assert sentence.missing
    assert "is empty" in sentence.text
    assert page.result(page.runs[0], "rank_course") is None


def test_one_analysis_is_computed_once_and_drawn_at_both_widths(run: Run, shown: list[Any]) -> None:
    page = Page([run.path])
    calls: list[str] = []

    def analyse(opened: Run) -> Any:
        calls.append(opened.path.name)
        return registry.analysis("recorder_cost").run(opened)

    page.show(page.runs[0], analyse, figures.recorder_cost)
    page.show(page.runs[0], analyse, lambda found: None)
    assert calls == ["r"]
    (picture,) = shown
    assert 'width="486' in picture.page
    assert 'width="234' in picture.column


def test_figures_are_also_written_as_files(run: Run, shown: list[Any], tmp_path: Path) -> None:
    page = Page([run.path], tmp_path / "figures", ("svg", "png"))
    page.show(page.runs[0], "recorder_cost", figures.recorder_cost)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"r-recorder_cost.svg", "r-recorder_cost.png"}


def test_several_runs_are_named(run: Run, shown: list[Any]) -> None:
    Page([run.path, run.path]).begin(run)
    assert shown == [Heading("r")]
    Page([run.path]).begin(run)
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("change", "left_out"),
    [
        (lambda path: None, set()),
        (lambda path: (path / "trace.zarr").rename(path / "gone"), {"group_size", "layer_dynamics", "lora_advice"}),
    ],
)
def test_notebooks_are_chosen_by_what_runs_hold(
    tmp_path: Path, change: Callable[[Path], Any], left_out: set[str]
) -> None:
    written = write_whole_run(tmp_path / "r", layers=2, steps=6)
    if left_out:
        change(written.path)
        (written.path / "commit.json").unlink()
    chosen, why = choose([open_run(written.path)])
    assert left_out <= set(why)
    assert "convergence" in chosen
    assert not set(chosen) & set(why)
