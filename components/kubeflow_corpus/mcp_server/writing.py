"""The write path of the tools: chunks and embeds documents that people write, and stores them beside ingested ones.

The query library reads; this is the only module of the server that writes. Chunkers and tokenizer, which the extra
``mcp`` lacks, are imported at the first write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import MANUAL_SOURCE, find_collection
from kubeflow_corpus.errors import InvalidArgument, PermissionDenied, SettingsError, UnitNotFound
from kubeflow_corpus.mcp_server.arguments import one_line
from kubeflow_corpus.mcp_server.origins import ARGUMENT, Author, checked_origin, document_id_of, official_prefixes
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.schema import HIDDEN
from kubeflow_corpus.vocabulary import VOCABULARY_KEY, recorded_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubeflow_corpus.embedding.embedder import Embedder
    from kubeflow_corpus.settings import Settings
    from kubeflow_corpus.store.manual import Place

EMBEDDING_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a call of a writing tool did.

    Attributes:
        action: One of `tools.documents.ACTIONS`.
        document_id: Its key.
        sha256: Digest of the content; empty where none was given.
        units: Units that it has now.
        rows_written: Rows written.
        rows_deleted: Rows of its earlier content that were deleted.
    """

    action: str
    document_id: str
    sha256: str = ""
    units: int = 0
    rows_written: int = 0
    rows_deleted: int = 0


class DocumentWriter:
    """Writes and hides documents of the reserved source. Safe for many threads: one writes at a time.

    Args:
        settings: Where Milvus is; its user needs the rights of a writer.
        embedder: Makes the embedder, at the first write.

    Raises:
        SettingsError: The extra ``ingest`` is not installed.
    """

    def __init__(self, settings: Settings, embedder: Callable[[], Embedder]) -> None:
        require_ingest()
        self._settings = settings
        self._make = embedder
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()

    def upsert(self, alias: str, arguments: Mapping[str, Any], author: Author, request_id: str) -> WriteResult:
        """Writes a document, over the one of the same owner and origin.

        Args:
            alias: The collection.
            arguments: Of `upsert_document`, valid by its schema.
            author: Who writes, and for which groups.
            request_id: Of this call.

        Raises:
            InvalidArgument: It cannot be a document.
            PermissionDenied: It would be of a group that the caller is not in, or another writer's public document
                has its origin.
            LeaseHeld: A run is writing the collection.
            ModelMismatch: The collection was embedded with another model.
            CorpusError: It could not be embedded or stored.
        """
        from kubeflow_corpus.chunking.compose import Budget
        from kubeflow_corpus.mcp_server.documents import read_written
        from kubeflow_corpus.store.manual import served_version, write_document
        from kubeflow_corpus.tokens import wordpiece_counter

        visibility = arguments["metadata"].get("visibility", "")
        _check_group(visibility, author)
        origin = checked_origin(one_line("metadata.origin", arguments["metadata"]["origin"]))
        with self._lock, self._open_place(alias, request_id) as place:
            embedder = self._open_embedder()
            identity = embedder.identity
            live = served_version(place, identity)
            tokens = int(live.properties.get(schema.TOKEN_BUDGET_KEY) or identity.max_tokens)
            words = recorded_vocabulary(live.properties.get(VOCABULARY_KEY, ""))
            _check_official(place, origin)
            key = _key_for(place, origin, visibility, author)
            written = read_written(place.spec, arguments, key, origin, Budget(wordpiece_counter(), tokens), words)
            texts = [chunk.embedding_text for chunk in written.chunks]
            vectors = embedder.embed(texts, timeout=EMBEDDING_SECONDS)
            change = write_document(place, written.document_id, written.rows, vectors, identity)
        return WriteResult(
            change.action,
            written.document_id,
            written.sha256,
            written.units,
            change.rows_written,
            change.rows_deleted,
        )

    def delete(self, alias: str, document_id: str, author: Author, request_id: str) -> WriteResult:
        """Hides a document from every reader; writing it again brings it back.

        Args:
            alias: The collection.
            document_id: Its key, or the key of one of its units.
            author: Who writes, and for which groups.
            request_id: Of this call.

        Raises:
            InvalidArgument: It is a document of the ingestion.
            UnitNotFound: There is no such document, or the caller may not see it.
            PermissionDenied: It is another writer's public document.
            LeaseHeld: A run is writing the collection.
            CorpusError: It could not be stored.
        """
        from kubeflow_corpus.store.manual import hide_document

        key = document_id.partition("#")[0]
        if not key.startswith(f"{MANUAL_SOURCE}:"):
            raise InvalidArgument(
                "document_id: it was not written with upsert_document",
                remedy="What the corpus fetches by itself is deleted at its source",
                argument="document_id",
            )

        def check_owner(visibility: str, origin: str) -> None:
            if author.owns(key, origin):
                return
            if visibility == HIDDEN or not author.may_see(visibility):
                raise _not_found()
            raise PermissionDenied(
                "The document is of another writer", remedy="Ask its writer, or the operator of the server"
            )

        with self._lock, self._open_place(alias, request_id) as place:
            change = hide_document(place, key, check_owner)
        if change.action == "absent":
            raise _not_found()
        return WriteResult(change.action, key, rows_written=change.rows_written)

    def close(self) -> None:
        """Closes the embedder."""
        embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()

    def _open_embedder(self) -> Embedder:
        if self._embedder is None:
            self._embedder = self._make()
        return self._embedder

    @contextmanager
    def _open_place(self, alias: str, request_id: str) -> Iterator[Place]:
        from kubeflow_corpus.store.manual import Place

        spec = find_collection(alias)
        with connected(self._settings) as client:
            prefix, embedded = self._settings.collection_prefix, self._settings.embedded_milvus
            yield Place(client, spec, prefix, f"mcp-{request_id}", embedded)


def require_ingest() -> None:
    """Raises `SettingsError` with the remedy where the chunkers are not installed."""
    try:
        import markdown_it  # noqa: F401
        import numpy  # noqa: F401
        import ruamel.yaml  # noqa: F401
        import tokenizers  # noqa: F401
        import tree_sitter  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"The write tools need {error.name}",
            remedy="Install the extras: pip install 'kubeflow-corpus[mcp,ingest]', or unset MCP_WRITE_ENABLED",
        ) from error


def _check_group(visibility: str, author: Author) -> None:
    if not author.may_see(visibility):
        raise PermissionDenied("The document would be of a group that you are not in", remedy="Name one of your groups")


def _check_official(place: Place, origin: str) -> None:
    from kubeflow_corpus.store.manual import has_ingested_page

    beginnings = list(official_prefixes(origin))
    if beginnings and has_ingested_page(place, beginnings):
        raise InvalidArgument(
            f"{ARGUMENT}: the corpus fetches what stands there by itself, and a text of yours would pass for it",
            remedy="Give the address where your text stands, or words",
            argument=ARGUMENT,
        )


def _key_for(place: Place, origin: str, visibility: str, author: Author) -> str:
    """Returns the key of a document, having made sure that nobody else's public one has its origin."""
    from kubeflow_corpus.store.manual import public_documents

    key = document_id_of(origin, author.owner(visibility))
    if visibility:
        return key
    # Everybody may find it anyway: to say that it is there tells nothing.
    others = public_documents(place, origin) - {key}
    if not others:
        return key
    if author.groups is None:
        return min(others)
    raise PermissionDenied(
        "A document of another writer has this origin",
        remedy="Use an origin of your own, write for one of your groups, or ask that writer",
    )


def _not_found() -> UnitNotFound:
    return UnitNotFound("There is no such document", remedy="Take document_id from upsert_document's answer")
