"""What a person writes, as a document of the corpus: checked, and cut by the chunkers that cut everything else.

Its citations carry the origin as their address; its source is `MANUAL_SOURCE`; its revision is a digest of the text.
Pages are Markdown without front matter (a front matter is left
out unread: title and metadata are arguments). Threads are Markdown, where what stands below a heading *Resolution*
resolves them, or the JSON of a thread, where only ``body`` is required. Code is cut by its file name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import CODE, DOCS, ISSUES, MANUAL_SOURCE, CollectionSpec
from kubeflow_corpus.errors import InvalidRow
from kubeflow_corpus.mcp_server.arguments import MAX_CONTENT_CHARACTERS, one_line, read_moment, wrong
from kubeflow_corpus.mcp_server.threads import read_thread
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

_FENCES: Final = ("---", "+++")


@dataclass(frozen=True, slots=True)
class Written:
    """A document that a person writes, checked.

    Attributes:
        spec: The collection.
        document_id: Its key: made of owner and origin, so that writing again replaces.
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


def read_written(
    spec: CollectionSpec,
    arguments: Mapping[str, Any],
    document_id: str,
    origin: str,
    budget: Budget,
    vocabulary: Vocabulary | None = None,
) -> Written:
    """Checks and cuts what `upsert_document` was given.

    Args:
        spec: The collection.
        arguments: Valid by the tool's schema.
        document_id: Its key.
        origin: Where it comes from, checked.
        budget: What a row may have, as in the version that is served.
        vocabulary: The words of the project, as in the version that is served; None is the packaged one.

    Raises:
        InvalidArgument: It cannot be a document; the error names the argument.
    """
    from kubeflow_corpus.chunking.run import chunk_document

    metadata = arguments["metadata"]
    content = _content(arguments["content"])
    title = one_line("title", arguments["title"])
    moment = read_moment("metadata.updated_at", metadata.get("updated_at"))
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    text, shift = content, 0
    if spec is DOCS:
        text, shift = _page(content, title)
    elif spec is ISSUES:
        text = read_thread(content, title, metadata, moment)
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
        raise wrong("content", f"nothing can be made of it: {why}", "See the descriptions of content and metadata.path")
    if len(chunked.chunks) > MAX_ROWS:
        raise wrong(
            "content",
            f"it gives {len(chunked.chunks)} rows",
            f"Write several documents of at most {MAX_ROWS} rows each",
        )
    changed = [
        _as_written(chunk, document, budget, title, metadata.get("visibility", ""), shift) for chunk in chunked.chunks
    ]
    return Written(spec, document_id, sha256, metadata.get("visibility", ""), tuple(changed), _rows(spec, changed))


def _content(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if CONTROLS.search(text):
        raise wrong("content", "it holds control characters or halves of characters", "Remove them")
    size = len(text.encode())
    if size > MAX_CONTENT_CHARACTERS:
        raise wrong("content", f"it has {size:,} bytes", f"Write at most {MAX_CONTENT_CHARACTERS:,} bytes")
    if not text.strip():
        raise wrong("content", "it is empty", "Write something")
    return text


def _path(spec: CollectionSpec, document_id: str, metadata: Mapping[str, Any]) -> str:
    name = document_id.partition(":")[2]
    if spec is ISSUES:
        return f"issues/{REPO}/{metadata.get('number') or name}"
    if "path" not in metadata and spec is CODE:
        raise wrong("metadata", "'path' is a required property of code", "Give the file name, such as controller.go")
    path = one_line("metadata.path", metadata.get("path", f"{name}.md"))
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise wrong("metadata.path", "it leads out of its folder", "Write it as folder/name.md")
    if spec is DOCS and not path.lower().endswith(PAGES):
        raise wrong("metadata.path", "a page ends in " + ", ".join(PAGES), "Use collection code for other files")
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
        raise wrong("content", f"its {field} does not fit into the corpus", "Shorten it, or correct it") from error
