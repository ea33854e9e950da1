"""The sample corpus as the page of `explore` shows it, and the screenshots of the documents.

``python -m tests.explore.sample`` takes the screenshots again: docs/images.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings

from tests.explore.browsing import launched, looking, served
from tests.retrieval.samples import COLLECTIONS, environment, run

IMAGES = Path(__file__).parents[2] / "docs" / "images"
INSTALL = "/?q=How+do+I+install+Orchard%3F"
PAGE = "/document?in=docs&id=orchard-website%3Acontent%2Fen%2Fdocs%2Fstarted%2Finstallation.md"
SIZE = (1280, 760)
# Name of the image, address, what is opened, colour scheme.
SHOTS = (
    ("explore-search", INSTALL, "", "light"),
    ("explore-why", f"{INSTALL}&in=docs&limit=2", "details.why", "dark"),
    ("explore-compare", f"{INSTALL}&in=docs&compare=1&b_mode=bm25", "", "light"),
    ("explore-original", f"{PAGE}&view=original", "", "light"),
    ("explore-questions", "/questions", "", "light"),
)


def index_sample(folder: Path) -> None:
    """Indexes the sample corpus by the steps of a run, keeps its originals as a run does, and asks some questions."""
    with environment(str(folder / "corpus.db"), folder / "vectors"):
        for collection in COLLECTIONS:
            assert run(collection, folder / "run").ok
    for fetched in (folder / "run").glob("*/fetch/*/rows.jsonl.zst"):
        kept = folder / "local" / "runs" / "one" / fetched.parent.name / "fetch" / "documents"
        kept.mkdir(parents=True)
        shutil.copy(fetched, kept)
    settings = Settings(milvus_uri=str(folder / "corpus.db"), question_log=str(folder / "asked.db"))
    with CorpusClient(settings=settings, timeout=60) as client:
        client.search_docs("How do I install Orchard?", request_id="install")
        client.search_docs("how can I install orchard", request_id="again")
        client.search_issues("quux flooble zzyzx", request_id="nothing")
        client.report_answer("install", False, "the page of version 2 is missing")


def take_screenshots(folder: Path) -> None:
    """Writes the images of the documents."""
    IMAGES.mkdir(exist_ok=True)
    place = (str(folder / "corpus.db"), folder / "local", folder / "questions.jsonl", folder / "asked.db")
    with served(*place) as page, launched() as browser:
        for name, path, opened, scheme in SHOTS:
            with looking(browser, scheme, SIZE) as tab:
                tab.goto(page.url + path)
                if opened:
                    tab.locator(opened).first.evaluate("(part) => { part.open = true; part.scrollIntoView() }")
                tab.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        index_sample(Path(name))
        take_screenshots(Path(name))
