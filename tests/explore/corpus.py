"""A corpus with hostile texts in every collection, and the page over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubeflow_corpus.explore.app import Explorer
from kubeflow_corpus.explore.asked import AskedLog, Tests
from kubeflow_corpus.explore.corpus import Corpus
from kubeflow_corpus.explore.guard import WriteToken
from kubeflow_corpus.explore.originals import Originals
from kubeflow_corpus.query.client import CorpusClient
from kubeflow_corpus.settings import Settings
from starlette.testclient import TestClient

from tests.query.corpus import MODEL, chunk, everything, fill, sealed

TOKEN = "word-from-the-terminal"
HOST = "http://127.0.0.1:8090"

# What a page must show as text, and never run, follow, or let turn the order of what is beside it.
HOSTILE = (
    "<script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title = 'taken'\">",
    "</div></pre></textarea></title><iframe src=//evil.example></iframe>",
    "<svg/onload=alert(1)><a href='javascript:alert(1)'>here</a>",
    '" autofocus onfocus="alert(1)" x="',
    "{{ 7 * 7 }} {% include 'base.html' %} ${7*7}",
    "<style>body { display: none }</style><base href=//evil.example>",
    "right \u202eot left\u202c \u2066isolate\u2069 zero\u200bwidth \ufeff mark",
    "<!-- --><![CDATA[ ]]> &lt;b&gt; &#60;script&#62;",
)


def hostile_contents() -> list[Any]:
    """The three collections, each with a document of hostile texts."""
    text = "\n".join(("Poisonous mushrooms grow here.", *HOSTILE))
    own = {
        "docs": {"doc_type": "docs"},
        "issues": {"issue_number": 66, "state": "open", "state_reason": HOSTILE[0], "labels": (HOSTILE[1],)},
        "code": {"kind": HOSTILE[0], "language": "go", "symbol": HOSTILE[4]},
    }
    contents = []
    for spec, chunks in everything():
        made = chunk(
            f"evil:{spec.name}.md#<b>unit</b>", text, title=HOSTILE[2], section=HOSTILE[3],
            source_type=spec.source_types[0], path="<i>evil</i>.md", repo="evil/<u>repo</u>", **own[spec.name],
        )  # fmt: skip
        contents.append((spec, [*chunks, *sealed([made])]))
    return contents


def hostile_database(folder: Path) -> str:
    uri = str(folder / "corpus.db")
    fill(uri, hostile_contents())
    return uri


@contextmanager
def opened_page(uri: str, local: Path, questions: Path | None = None, **options: Any) -> Iterator[TestClient]:
    """The page as a browser on this machine asks it."""
    settings = Settings(milvus_uri=uri, **options)
    with CorpusClient(settings=settings.unlogged(), embeddings=MODEL, timeout=60) as client:
        log = AskedLog(Path(settings.question_log) if settings.question_log else None)
        tests = Tests(client, questions, WriteToken(TOKEN))
        explorer = Explorer(Corpus(client, settings), Originals(local), log, tests)
        yield TestClient(explorer.app(), base_url=HOST)
