"""What a person writes, as a document of the corpus: checked, and cut by the chunkers that cut everything else.

One origin is one document of a collection. Its citations carry the origin as their address; its source is
`MANUAL_SOURCE`; its revision is a digest of the text. Pages are Markdown without front matter (a front matter is left
out unread: title and metadata are arguments). Threads are Markdown, where what stands below a heading *Resolution*
resolves them, or the JSON of a thread, where only ``body`` is required. Code is cut by its file name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kubeflow_corpus.collections import CODE, DOCS, ISSUES, MANUAL_SOURCE, CollectionSpec
from kubeflow_corpus.errors import InvalidArgument, InvalidRow
from kubeflow_corpus.mcp_server.tools.documents import MAX_CONTENT_CHARACTERS
from kubeflow_corpus.records import Chunk, Document
from kubeflow_corpus.store.rows import to_row
from kubeflow_corpus.store.schema import CONTROLS
from kubeflow_corpus.terms import version_precisions

if TYPE_CHECKING:
    from kubeflow_corpus.chunking.compose import Budget
    from kubeflow_corpus.vocabulary import Vocabulary

# More rows than the largest page of the corpus has: what needs more is a data set.
MAX_ROWS: Final = 500
MAX_FRONT_MATTER_LINES: Final = 2_000
# Shown as the repository of written documents, which have none.
REPO: Final = MANUAL_SOURCE
PAGES: Final = (".md", ".markdown", ".mdx")
MANIFESTS: Final = (".yaml", ".yml")
# Origins that are not the address of a page, and that no browser runs.
PLACES: Final = ("s3://", "gs://", "oci://", "hdfs://", "pvc://")

_FENCES: Final = ("---", "+++")
_RESOLUTION: Final = re.compile(r"^#{1,6}[ \t]+(?:resolution|solution|fix|answer)[ \t]*#*[ \t]*$", re.IGNORECASE | re.M)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SLUG_CHARACTERS: Final = 60
_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True)
class Written:
    """A document that a person writes, checked.

    Attributes:
        spec: The collection.
        document_id: Its key: made of the origin, so that writing again replaces.
        sha256: Digest of the content.
        visibility: The only group that may find it; empty is everybody.
        chunks: Its rows.
        rows: The same as the store takes them.
    """

    spec: CollectionSpec
    document_id: str
    sha256: str
    visibility: str
    chunks: tuple[Chunk, ...]
    rows: tuple[dict[str, Any], ...]

    @property
    def units(self) -> int:
        """Units that it has."""
        return len({chunk.unit_id for chunk in self.chunks})


def document_id_of(origin: str) -> str:
    """Returns the key of the document of an origin."""
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^[a-z0-9]+://", "", origin.lower())).strip("-")[:_SLUG_CHARACTERS]
    digest = hashlib.sha256(origin.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{MANUAL_SOURCE}:{slug.strip('-') or 'document'}-{digest}"


def read_written(
    spec: CollectionSpec, arguments: Mapping[str, Any], budget: Budget, vocabulary: Vocabulary | None = None
) -> Written:
    """Checks and cuts what `upsert_document` was given.

    Args:
        spec: The collection.
        arguments: Valid by the tool's schema.
        budget: What a row may have, as in the version that is served.
        vocabulary: The words of the project, as in the version that is served; None is the packaged one.

    Raises:
        InvalidArgument: It cannot be a document; the error names the argument.
    """
    from kubeflow_corpus.chunking.run import chunk_document

    metadata = arguments["metadata"]
    content = _content(arguments["content"])
    title = _line("title", arguments["title"])
    origin = checked_origin(metadata["origin"])
    document_id = document_id_of(origin)
    moment = _moment(metadata.get("updated_at"))
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    text, shift = content, 0
    if spec is DOCS:
        text, shift = _page(content, title)
    elif spec is ISSUES:
        text = _thread(content, title, metadata, moment)
    versions = [name for version in metadata.get("version", ()) for name in version_precisions(version) or (version,)]
    path = _path(spec, document_id, metadata)
    document = Document(
        document_id=document_id,
        source=MANUAL_SOURCE,
        source_type=_source_type(spec, path),
        repo=REPO,
        revision=sha256[:40],
        path=path,
        url=origin,
        title=title,
        text=text,
        metadata={
            "product_area": list(metadata.get("product_area", ())),
            "version": list(dict.fromkeys(versions)),
            "updated_at": moment,
            "keep_tests": True,
        },
    )
    chunked = chunk_document(document, budget, vocabulary=vocabulary)
    if chunked.skipped is not None:
        why = " ".join(
            part for part in (chunked.skipped.reason.replace("_", " "), chunked.skipped.detail[:200]) if part
        )
        raise _wrong(
            "content", f"nothing can be made of it: {why}", "See the descriptions of content and metadata.path"
        )
    if len(chunked.chunks) > MAX_ROWS:
        raise _wrong(
            "content",
            f"it gives {len(chunked.chunks)} rows",
            f"Write several documents of at most {MAX_ROWS} rows each",
        )
    changed = [
        _as_written(chunk, document, budget, title, metadata.get("visibility", ""), shift) for chunk in chunked.chunks
    ]
    return Written(spec, document_id, sha256, metadata.get("visibility", ""), tuple(changed), _rows(spec, changed))


def checked_origin(origin: str) -> str:
    """Returns an origin that is safe in a citation, where a widget makes a link of it.

    Raises:
        InvalidArgument: It is an address that leads elsewhere than a person would think.
    """
    text = _line("metadata.origin", origin)
    remedy = "Give the http(s) address of the document, or words such as: Runbook of the platform team, page 12"
    if text.lower().startswith(("http://", "https://")):
        try:
            parts = urlsplit(text)
            known = bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known or " " in text or "\\" in text:
            raise _wrong("metadata.origin", "it is not an http(s) address", remedy)
        if parts.username is not None or parts.password is not None:
            raise _wrong("metadata.origin", "it holds a user name or a password", "Leave them out")
    elif _SCHEME.match(text) and not text.lower().startswith(PLACES):
        # `javascript:` and its kin: whatever comes before the colon, a browser might run what comes after it.
        raise _wrong("metadata.origin", "it begins like an address of an unknown kind", f"{remedy}, without a colon")
    return text


def _content(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if CONTROLS.search(text):
        raise _wrong("content", "it holds control characters or halves of characters", "Remove them")
    size = len(text.encode())
    if size > MAX_CONTENT_CHARACTERS:
        raise _wrong("content", f"it has {size:,} bytes", f"Write at most {MAX_CONTENT_CHARACTERS:,} bytes")
    if not text.strip():
        raise _wrong("content", "it is empty", "Write something")
    return text


def _line(name: str, text: str) -> str:
    if CONTROLS.search(text) or "\n" in text or "\t" in text:
        raise _wrong(name, "it holds control characters or a line break", "Write one line")
    text = " ".join(text.split())
    if not text:
        raise _wrong(name, "it is empty", "Write something")
    return text


def _path(spec: CollectionSpec, document_id: str, metadata: Mapping[str, Any]) -> str:
    name = document_id.partition(":")[2]
    if spec is ISSUES:
        return f"issues/{REPO}/{metadata.get('number') or name}"
    if "path" not in metadata and spec is CODE:
        raise _wrong("metadata", "'path' is a required property of code", "Give the file name, such as controller.go")
    path = _line("metadata.path", metadata.get("path", f"{name}.md"))
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise _wrong("metadata.path", "it leads out of its folder", "Write it as folder/name.md")
    if spec is DOCS and not path.lower().endswith(PAGES):
        raise _wrong("metadata.path", "a page ends in " + ", ".join(PAGES), "Use collection code for other files")
    return path


def _source_type(spec: CollectionSpec, path: str) -> Any:
    if spec is CODE:
        return "manifest" if path.lower().endswith(MANIFESTS) else "code"
    return spec.source_types[0]


def _page(content: str, title: str) -> tuple[str, int]:
    """Returns a page with its title as the only front matter, and by how many lines that moves its text down."""
    lines = content.split("\n")
    own = 0
    if lines[0].rstrip() in _FENCES:
        fence = lines[0].rstrip()
        ends = (
            number for number, line in enumerate(lines[1 : MAX_FRONT_MATTER_LINES + 1], 1) if line.rstrip() == fence
        )
        own = next(ends, -1) + 1
    # A text in JSON's quotes is one in YAML's.
    front = ["---", f"title: {json.dumps(title, ensure_ascii=False)}", "---"]
    return "\n".join([*front, *lines[own:]]), len(front) - own


def _thread(content: str, title: str, metadata: Mapping[str, Any], moment: str) -> str:
    """Returns a thread as the chunker of threads reads it."""
    data = _thread_json(content) if content.lstrip().startswith("{") else _thread_markdown(content)
    comments = data.get("comments") or []
    if not isinstance(data.get("body"), str) or not isinstance(comments, list):
        raise _wrong("content", "the thread has no text body", 'Write {"body": "...", "comments": [{"body": "..."}]}')
    resolved = any(isinstance(comment, Mapping) and comment.get("resolution") for comment in comments)
    state = metadata.get("state") or data.get("state") or ("closed" if resolved else "open")
    thread = {
        **_post(data, 0, moment),
        "number": metadata.get("number") or data.get("number") or 0,
        "title": title,
        "state": state,
        "state_reason": "completed" if state == "closed" else "",
        "labels": [str(label) for label in data.get("labels") or ()],
        "closed_at": moment if state == "closed" else "",
        "closed_by": [],
        "comments": [_post(comment, number, moment) for number, comment in enumerate(comments, 1)],
    }
    return json.dumps(thread, ensure_ascii=False)


def _thread_json(content: str) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _wrong("content", "it begins like JSON and is not valid JSON", "Write JSON, or Markdown") from error
    return data if isinstance(data, dict) else {}


def _thread_markdown(content: str) -> dict[str, Any]:
    heading = _RESOLUTION.search(content)
    if heading is None:
        return {"body": content}
    answer = content[heading.end() :].strip()
    return {"body": content[: heading.start()].rstrip(), "comments": [{"body": answer, "resolution": True}]}


def _post(data: Any, number: int, moment: str) -> dict[str, Any]:
    if not isinstance(data, Mapping) or not isinstance(data.get("body", ""), str):
        raise _wrong("content", "a comment of the thread is not an object with a text body", "Correct it")
    resolution = bool(data.get("resolution"))
    return {
        "id": number,
        "author": str(data.get("author") or ""),
        # Who writes the resolution of a thread down says that it is one, as a maintainer and readers would.
        "author_association": "MEMBER" if resolution else str(data.get("author_association") or "NONE"),
        "bot": False,
        "created_at": str(data.get("created_at") or moment),
        "reactions": {"+1": 8} if resolution else {},
        "body": data.get("body", ""),
    }


def _as_written(chunk: Chunk, document: Document, budget: Budget, title: str, visibility: str, shift: int) -> Chunk:
    changed = replace(
        chunk,
        citation_url=document.url,
        revision=document.revision,
        updated_at=str(document.metadata["updated_at"]),
        visibility=visibility,
        start_line=max(1, chunk.start_line - shift),
        end_line=max(1, chunk.end_line - shift),
    )
    if chunk.source_type in ("docs", "issue"):
        return changed
    from kubeflow_corpus.chunking.compose import search_text

    # Code is titled by its path; what a person calls the file is worth more, and the path stays searchable.
    embedding, _ = budget.embedding_text(budget.header(title, chunk.section_path), chunk.content_text)
    searched = search_text(f"{title} {chunk.file_path}", chunk.section_path, chunk.content_text)
    return replace(changed, title=title, search_text=searched, embedding_text=embedding)


def _rows(spec: CollectionSpec, chunks: Sequence[Chunk]) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(to_row(spec, chunk) for chunk in chunks)
    except InvalidRow as error:
        field = error.fields.get("field", "")
        raise _wrong("content", f"its {field} does not fit into the corpus", "Shorten it, or correct it") from error


def _moment(text: str | None) -> str:
    try:
        moment = datetime.fromisoformat(text) if text else datetime.now(UTC)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError) as error:
        raise _wrong("metadata.updated_at", "it is not a date", "Write it as 2026-03-31T12:00:00Z") from error


def _wrong(argument: str, problem: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(f"{argument}: {problem}", remedy=remedy, argument=argument)
