"""The sample threads of tests/corpus/issues as a GitHub serves them, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from kubeflow_corpus.records import Document
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.sources.catalogue import Source
from kubeflow_corpus.sources.github.crawl import fetch_threads
from kubeflow_corpus.sources.github.cursor import Cursor
from ruamel.yaml import YAML

from tests.servers.github import Comment, GithubServer, Issue, serve

CORPUS = Path(__file__).parents[1] / "corpus" / "issues"
FILES = ("pipelines", "katib", "kserve", "trainer", "notebooks", "platform")


@dataclass(frozen=True)
class Label:
    """What resolves a thread: the number of a comment from 1, ``pull_request``, ``duplicate`` or ``none``."""

    repo: str
    number: int
    resolution: int | str


@dataclass(frozen=True)
class PastedError:
    """An error as a user pastes it, and the thread that explains it (``owner/name/number``)."""

    thread: str
    pasted: str


def read_yaml(name: str) -> Any:
    return YAML(typ="safe").load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))


def labels() -> list[Label]:
    return [
        Label(data["repo"], thread["number"], thread["resolution"])
        for data in map(read_yaml, FILES)
        for thread in data["threads"]
    ]


def pasted_errors() -> list[PastedError]:
    return [PastedError(**entry) for entry in read_yaml("errors")]


def fill_samples(github: GithubServer) -> list[str]:
    """Fills a server with the samples and returns the names of the repositories."""
    names = []
    for data in map(read_yaml, FILES):
        repository = github.repository(data["repo"])
        names.append(data["repo"])
        for thread in data["threads"]:
            repository.add(_issue(github, thread))
        for pull_request in data.get("pull_requests", ()):
            merged = _at(pull_request["merged"], 8)
            number, title, body = pull_request["number"], pull_request["title"], pull_request["body"]
            issue = Issue(number, title, body, "committer", "MEMBER", merged, merged, "closed", closed_at=merged)
            issue.pull_request, issue.merged_at = True, merged
            repository.add(issue)
    return names


def _issue(github: GithubServer, thread: dict[str, Any]) -> Issue:
    state, _, reason = thread["state"].partition("/")
    opened = _at(thread["opened"], 8)
    closed = _at(thread["closed"], 20) if "closed" in thread else None
    issue = Issue(
        thread["number"],
        thread["title"],
        thread["body"],
        thread["by"],
        "NONE",
        opened,
        opened,
        state=state,
        state_reason=reason or None,
        closed_at=closed,
        labels=list(thread["labels"]),
    )
    for place, comment in enumerate(thread["comments"], start=9):
        user, _, association = (comment["by"] or "").partition("/")
        at = _at(comment["on"], place)
        issue.comments.append(
            Comment(
                github.next_id(),
                comment["says"],
                user or None,
                association or "NONE",
                at,
                at,
                comment.get("reactions", {}),
            )
        )
    issue.updated_at = max([opened, closed or "", *(comment.updated_at for comment in issue.comments)])
    return issue


def _at(day: date, hour: int) -> str:
    return f"{day.isoformat()}T{hour:02d}:00:00Z"


@cache
def sample_documents() -> dict[str, Document]:
    """The samples as the source reads them from the server, by ``owner/name/number``."""
    found = {}
    with serve() as github:
        for repo in fill_samples(github):
            source = Source(repo.rpartition("/")[2] + "-issues", "issue", repo, "")
            items = fetch_threads(
                source,
                Settings(github_api_url=github.url),
                Cursor(),
                now=github.clock,
                sleep=github.sleep,
                progress=str,
            )
            found.update({item.path.removeprefix("issues/"): item for item in items if isinstance(item, Document)})
    return found
