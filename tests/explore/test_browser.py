"""The page in a real browser, over the sample corpus: as a person looks, types and tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kubeflow_corpus.evaluation.baseline import Setup
from kubeflow_corpus.evaluation.history import PastRun
from kubeflow_corpus.evaluation.metrics import Answer
from kubeflow_corpus.evaluation.questions import Question, load_questions
from kubeflow_corpus.evaluation.report import to_html
from kubeflow_corpus.ingest.results import SourceState, StepResult
from kubeflow_corpus.ingest.run_report import run_page, run_report

from tests.explore.browsing import (
    AXE,
    LOOKS,
    Served,
    faults,
    launched,
    looking,
    needs_axe,
    needs_chromium,
    overflow,
    served,
)
from tests.explore.corpus import HOSTILE, hostile_database
from tests.explore.sample import index_sample
from tests.retrieval.samples import COLLECTIONS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_chromium, pytest.mark.slow, pytest.mark.timeout(600)]

INSTALL = "/?q=How+do+I+install+Orchard%3F"
COMPARED = f"{INSTALL}&in=docs&compare=1&b_mode=bm25"
PAGES = {
    "search": INSTALL,
    "nothing": "/?q=quux+flooble+zzyzx",
    "filtered": f"{INSTALL}&product_area=platform&limit=2&mode=bm25",
    "compared": COMPARED,
    "browse": "/browse",
    "source": "/source?in=docs&source=orchard-website",
    "document": "/document?in=docs&id=orchard-website%3Acontent%2Fen%2Fdocs%2Fstarted%2Finstallation.md",
    "original": "/document?in=docs&id=orchard-website%3Acontent%2Fen%2Fdocs%2Fstarted%2Finstallation.md&view=original",
    "thread": "/source?in=issues&source=pipelines-issues",
    "versions": "/versions",
    "questions": "/questions",
    "problem": "/document?in=docs&id=nothing",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample corpus, indexed by the steps of a run, what the run kept, and a log of questions."""
    folder: Path = tmp_path_factory.mktemp("sample")
    index_sample(folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def explorer(place: Path) -> Iterator[Served]:
    with served(str(place / "corpus.db"), place / "local", place / "questions.jsonl", place / "asked.db") as page:
        yield page


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_every_page_fits_and_asks_nobody_else(
    browser: Browser, explorer: Served, name: str, scheme: str, size: tuple[int, int]
) -> None:
    # A page that says what does not exist is an answer with a status of its own, which the browser reports.
    with looking(browser, scheme, size) as page:
        if name == "problem":
            page.context.route("**/favicon.ico", lambda route: route.abort())
            answer = page.request.get(explorer.url + PAGES[name])
            page.set_content(answer.text())
            assert answer.status == 400
        else:
            page.goto(explorer.url + PAGES[name])
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        assert overflow(page) == 0
        assert page.locator("h1").count() == 1
        assert page.title().endswith(" - kubeflow-corpus")
        dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert name == "problem" or (sum(map(int, dark[4:-1].split(", "))) < 200) == (scheme == "dark")


@needs_axe
@pytest.mark.parametrize("name", [name for name in PAGES if name != "problem"])
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_axe_finds_no_serious_fault(
    browser: Browser, explorer: Served, name: str, scheme: str, size: tuple[int, int]
) -> None:
    with looking(browser, scheme, size) as page:
        page.goto(explorer.url + PAGES[name])
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        assert faults(page) == []


def test_a_person_searches_filters_and_asks_why(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(explorer.url)
        page.get_by_role("searchbox", name="Question").fill("How do I install Orchard?")
        page.get_by_role("button", name="Search").click()
        docs = page.get_by_role("region", name="Documentation", exact=True)
        assert docs.get_by_role("article").count() == 5
        assert docs.locator("mark", has_text="Orchard").count() > 0
        citation = docs.get_by_role("link", name="Install Orchard").first.get_attribute("href")
        assert citation and citation.startswith("https://docs.orchard.example/docs/started/installation/")
        assert not docs.get_by_role("table").is_visible()
        docs.get_by_text("Why", exact=True).click()
        assert docs.get_by_role("table").get_by_text("hit 1", exact=True).is_visible()
        docs.get_by_text("Evidence,").click()
        assert docs.get_by_text("Retrieved fragments [c1]").is_visible()

        page.get_by_text("Filters and settings").click()
        page.get_by_label("product area").fill("pipelines")
        page.get_by_label("Lists").first.select_option("bm25")
        page.get_by_role("button", name="Search").click()
        assert "product_area=pipelines" in page.url and "mode=bm25" in page.url
        # Fields that were not touched are not in the address.
        assert "language" not in page.url and "b_mode" not in page.url and "limit" not in page.url
        assert page.get_by_label("product area").input_value() == "pipelines"
        products = docs.locator(".hits .fact", has_text="product").all_inner_texts()
        assert products and all("pipelines" in product for product in products)

        page.go_back()
        assert page.get_by_role("searchbox", name="Question").is_enabled()


def test_two_settings_stand_side_by_side(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(explorer.url + COMPARED)
        first, second = page.locator(".side").all()
        assert "First: the defaults" in first.inner_text() and "Second: mode bm25" in second.inner_text()
        left, right = first.bounding_box(), second.bounding_box()
        assert left and right and left["y"] == right["y"] and left["x"] < right["x"]


def test_the_link_to_a_question_is_copied(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(f"{explorer.url}{INSTALL}&in=docs&in=code&limit=3&state=")
        page.get_by_role("link", name="Link to this question").click()
        page.get_by_text("Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == f"{explorer.url}{INSTALL}&in=docs&in=code&limit=3"


def test_a_person_browses_to_the_original(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(explorer.url)
        page.get_by_role("link", name="Browse").click()
        page.get_by_role("link", name="orchard-website").click()
        page.get_by_role("link", name="content/en/docs/started/installation.md").click()
        page.get_by_role("link", name="Beside its original").click()
        assert page.locator(".lines code").count() > 30
        assert page.get_by_text("removed: front matter").is_visible()
        original, cut = (page.locator(f".block.odd {part}").first.bounding_box() for part in (".lines", ".cut .text"))
        assert original and cut and original["x"] < cut["x"] and abs(original["y"] - cut["y"]) < 60
        page.get_by_role("link", name="row 1", exact=True).click()
        assert "#row-1" in page.url and page.locator("#row-1").is_visible()


def test_a_custom_resource_is_a_tree_and_a_thread_shows_its_resolution(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(f"{explorer.url}/?q=CustomResourceDefinition+fields&in=code&kind=CustomResourceDefinition")
        page.get_by_role("link", name="As it was cut").first.click()
        tree = page.locator(".tree")
        tree.locator("summary", has_text="spec").first.wait_for()
        assert tree.locator("li").count() > 5

        page.goto(f"{explorer.url}/?q=failed+to+save+outputs+No+such+container&in=issues")
        page.get_by_role("link", name="As it was cut").first.click()
        assert page.locator(".text.resolution").first.is_visible()


def test_a_bad_answer_becomes_a_test(browser: Browser, explorer: Served, place: Path) -> None:
    with looking(browser) as page:
        page.goto(explorer.url)
        page.get_by_role("link", name="Questions").click()
        page.get_by_role("link", name="did not help").click()
        page.get_by_role("table", name="").first.get_by_role("link").first.click()
        page.get_by_text("the page of version 2 is missing").wait_for()
        page.get_by_role("link", name="This answers it").first.click()
        page.get_by_label("Kind").fill("howto")
        page.get_by_label("Write token").fill(explorer.token)
        page.get_by_role("button", name="Add to questions.jsonl").click()
        page.get_by_role("heading", name="Added d001").wait_for()
        (question,) = load_questions(place / "questions.jsonl")
        assert question.kind == "howto" and "orchard" in question.query.lower()
        # The token is typed once.
        page.go_back()
        page.reload()
        assert page.get_by_label("Write token").input_value() == explorer.token


def test_everything_is_reached_by_the_keyboard_alone(browser: Browser, explorer: Served) -> None:
    with looking(browser) as page:
        page.goto(explorer.url)
        assert page.evaluate("document.activeElement.name") == "q"
        page.keyboard.type("How do I install Orchard?")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?q=*")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        reached: list[str] = []
        for _ in range(120):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.trim().slice(0, 40)"))
            visible = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert visible != "none", reached[-1]
            if reached[-1] == "Why":
                break
        assert {"Search", "Filters and settings", "Install Orchard", "As it was cut", "Make a test"} <= set(reached)
        page.keyboard.press("Enter")
        assert page.locator("details.why").first.evaluate("(part) => part.open")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "q"


def test_pages_work_without_their_script(browser: Browser, explorer: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(explorer.url)
    page.get_by_role("searchbox").fill("install Orchard")
    page.get_by_role("button", name="Search").click()
    assert page.get_by_role("article").count() > 5
    context.close()


def test_hostile_texts_run_nothing(browser: Browser, tmp_path: Path) -> None:
    with served(hostile_database(tmp_path), tmp_path, tmp_path / "q.jsonl") as page, looking(browser) as tab:
        for text in ("poisonous mushrooms", *HOSTILE):
            tab.goto(page.url)
            tab.get_by_role("searchbox").fill(text)
            tab.get_by_role("button", name="Search").click()
            tab.wait_for_url("**/?q=*")
            assert tab.title().endswith(" - kubeflow-corpus")
            assert tab.locator("iframe, img, svg, style, main script").count() == 0
        for name in COLLECTIONS:
            tab.goto(f"{page.url}/document?in={name}&id=evil:{name}.md")
            assert tab.get_by_text("<script>document.title").first.is_visible()
            assert tab.locator("body").is_visible()


REPORTS = {
    "evaluation": to_html(
        "Retrieval over questions.jsonl",
        [
            Answer(
                Question(
                    f"q{number}",
                    f"{HOSTILE[number % 3]} {'word ' * 30}",
                    "docs",
                    f"kind{number % 4}",
                    {"a/b:" + "c" * 90: 3},
                ),
                (("example/site:" + "content/en/docs/" * 8 + "page.md",),) * (number % 3),
                milliseconds=40.0,
            )
            for number in range(12)
        ],
        failures=["hit@1 is 0.2, which is below its floor 0.9"],
        about={"date": "2026-01-01T00:00:00Z", "model": "sentence-transformers/all-MiniLM-L6-v2", "site": "0" * 40},
        history=[PastRun("", Setup("", "", {}), {"hit@1": number / 9, "mrr@10": 0.5}) for number in range(9)],
    ),
    "run": run_page(
        run_report(
            [
                StepResult(
                    collection="docs",
                    step="publish",
                    counts={f"figure number {number}": 10**number for number in range(9)},
                    sources=(
                        SourceState(
                            collection="docs",
                            step="chunk",
                            source="a-source-with-a-long-name",
                            left_out={"draft": 8},
                            examples={"draft": ["content/en/docs/" * 9]},
                        ),
                    ),
                )
            ]
        )
    ),
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_reports_fit_and_open_offline(browser: Browser, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(REPORTS[name], "utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert overflow(page) == 0
    assert asked == [file.as_uri()]
    assert not AXE or faults(page) == []
    context.close()
