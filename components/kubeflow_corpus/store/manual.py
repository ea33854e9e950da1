"""Documents that people write, under the reserved source `MANUAL_SOURCE`: one is replaced or hidden as a whole.

They go into the version that is served, under the lease of the collection, so that no run is writing meanwhile. The
order is that of `apply`: new rows are written, flushed and read back before an old one is deleted, and a call that was
killed is put right by the next one for the same document. No run touches such rows, and a rebuild copies them.

Deleting is soft: the rows stay, with the visibility `HIDDEN`, which every reader leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from kubeflow_corpus.collections import COLLECTIONS, KEY_FIELD, MANUAL_SOURCE, SCHEMA_VERSION, CollectionSpec
from kubeflow_corpus.errors import CollectionNotFound, SchemaMismatch
from kubeflow_corpus.milvus import store_errors
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.rows import KEYS_PER_FILTER, check_vectors, in_batches, rows_by_key, scan, stored_row
from kubeflow_corpus.store.schema import HIDDEN, PUBLIC, VECTOR_FIELD, keys_filter, text_literal
from kubeflow_corpus.store.versions import Version, ensure_loaded, list_versions, live_version
from kubeflow_corpus.store.writer import UPSERT_ROWS, Writer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pymilvus import MilvusClient

    from kubeflow_corpus.model import ModelIdentity

Action = Literal["created", "replaced", "restored", "unchanged", "deleted", "absent"]
# Keys of one request for rows with their vectors.
_VECTOR_KEYS: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document goes.

    Attributes:
        client: The connection.
        spec: The collection.
        prefix: The environment's prefix.
        run: Id of this call; its lease is under this name.
        embedded: Whether the database is a ``.db`` path.
    """

    client: MilvusClient
    spec: CollectionSpec
    prefix: str
    run: str
    embedded: bool = False

    @property
    def served(self) -> str:
        """The alias as Milvus knows it."""
        return schema.served_name(self.prefix, self.spec.alias)


@dataclass(frozen=True, slots=True)
class Change:
    """What a call did to a document.

    Attributes:
        action: ``restored`` is a document that was deleted and is written again; ``absent`` is one that never existed.
        rows_written: Rows written.
        rows_deleted: Rows of its earlier content that were deleted.
    """

    action: Action
    rows_written: int = 0
    rows_deleted: int = 0


def served_version(place: Place, identity: ModelIdentity) -> Version:
    """Returns the version that is served, where rows of this model may join it.

    Raises:
        CollectionNotFound: Nothing is served yet.
        SchemaMismatch: Its rows have other fields than this release writes.
        ModelMismatch: Its vectors are of another model.
    """
    return _version_for(place, list_versions(place.client, place.served), identity)


def _version_for(place: Place, versions: list[Version], identity: ModelIdentity) -> Version:
    live = live_version(versions)
    if live is None:
        raise CollectionNotFound(
            f"{place.served} is not served yet",
            remedy="Run the ingestion first: kubeflow-corpus run",
            collection=place.served,
        )
    recorded = live.properties.get(schema.SCHEMA_VERSION_KEY, "")
    if recorded != SCHEMA_VERSION:
        raise SchemaMismatch(
            f"{live.name} has schema {recorded or '(none)'}, this release writes {SCHEMA_VERSION}",
            remedy="Rebuild it: kubeflow-corpus run <collection> --rebuild",
            collection=live.name,
        )
    schema.check_model(live.properties, identity, live.name)
    return live


def write_document(
    place: Place,
    document_id: str,
    rows: Sequence[dict[str, Any]],
    vectors: NDArray[np.float32],
    identity: ModelIdentity,
) -> Change:
    """Makes the served version hold exactly these rows of a document.

    Args:
        place: Where.
        document_id: Its key; every row has it, and the source `MANUAL_SOURCE`.
        rows: What `rows.to_row` returned, at least one.
        vectors: Array of shape (len(rows), dimension).
        identity: The model of the vectors.

    Raises:
        LeaseHeld: A run, or another call, is writing this collection.
        InvalidVector: A vector cannot be ranked; nothing was written.
        ModelMismatch: The collection's vectors are of another model.
        StoreError: Milvus failed, or rows that were written do not come back.
    """
    assert rows and all(row["source"] == MANUAL_SOURCE and row["document_id"] == document_id for row in rows)
    check_vectors([row["embedding_hash"] for row in rows], vectors, identity.dimension)
    with _lease_place(place) as (lease, versions):
        live = _version_for(place, versions, identity)
        stored = _stored_rows(place, live.name, document_id)
        wanted = {row[KEY_FIELD]: _state(row) for row in rows}
        if {key: _state(row) for key, row in stored.items()} == wanted:
            return Change("unchanged")
        writer = Writer(place.client, lease, live.name)
        full = ({**row, VECTOR_FIELD: vector} for row, vector in zip(rows, vectors, strict=True))
        for batch in in_batches(full, UPSERT_ROWS):
            writer.upsert(batch)
        writer.flush()
        _check_written(writer, wanted)
        stale = [key for key in stored if key not in wanted]
        if stale:
            for keys in in_batches(iter(stale), KEYS_PER_FILTER):
                writer.delete(keys)
            writer.flush()
        hidden = bool(stored) and all(row["visibility"] == HIDDEN for row in stored.values())
        action: Action = "restored" if hidden else "replaced" if stored else "created"
        return Change(action, writer.rows_written, writer.rows_deleted)


def hide_document(
    place: Place, document_id: str, check_owner: Callable[[str, str], None] = lambda visibility, origin: None
) -> Change:
    """Deletes a document softly: its rows stay and no reader finds them.

    Args:
        place: Where.
        document_id: Its key.
        check_owner: Gets visibility and origin of the stored document, and raises where the caller has no right to it.

    Raises:
        LeaseHeld: A run, or another call, is writing this collection.
        CollectionNotFound: Nothing is served yet.
        StoreError: Milvus failed, or rows that were written do not come back.
    """
    with _lease_place(place) as (lease, versions):
        live = live_version(versions)
        if live is None:
            raise CollectionNotFound(f"{place.served} is not served yet", collection=place.served)
        stored = _stored_rows(place, live.name, document_id)
        # Of a hidden document too: that it is there is nobody's business but its owner's.
        for visibility, origin in sorted({(row["visibility"], row["citation_url"]) for row in stored.values()}):
            check_owner(visibility, origin)
        shown = [key for key, row in stored.items() if row["visibility"] != HIDDEN]
        if not shown:
            return Change("unchanged" if stored else "absent")
        writer = Writer(place.client, lease, live.name)
        fields = [*(field.name for field in place.spec.fields), VECTOR_FIELD]
        for keys in in_batches(iter(shown), UPSERT_ROWS):
            with store_errors(live.name):
                rows = rows_by_key(place.client, live.name, keys, fields)
            writer.upsert(
                [{**stored_row(place.spec, row), "visibility": HIDDEN, VECTOR_FIELD: row[VECTOR_FIELD]} for row in rows]
            )
        writer.flush()
        _check_written(writer, {key: (stored[key]["row_hash"], HIDDEN) for key in shown})
        return Change("deleted", writer.rows_written)


@contextmanager
def _lease_place(place: Place) -> Iterator[tuple[Lease, list[Version]]]:
    lease = Lease(place.client, place.served, place.run, embedded=place.embedded)
    with lease.taken() as versions:
        yield lease, versions


def _stored_rows(place: Place, name: str, document_id: str) -> dict[str, dict[str, Any]]:
    ensure_loaded(place.client, name)
    fields = [KEY_FIELD, "row_hash", "visibility", "citation_url"]
    where = f"{keys_filter('source', [MANUAL_SOURCE])} and {keys_filter('document_id', [document_id])}"
    with store_errors(name):
        return {row[KEY_FIELD]: row for page in scan(place.client, name, fields, where) for row in page}


def public_documents(place: Place, origin: str) -> set[str]:
    """Returns the keys of the documents of an origin that everybody may find."""
    live = live_version(list_versions(place.client, place.served))
    if live is None:
        return set()
    where = (
        f"source == {text_literal(MANUAL_SOURCE)} and visibility == {text_literal(PUBLIC)} "
        f"and citation_url == {text_literal(origin)}"
    )
    ensure_loaded(place.client, live.name)
    with store_errors(live.name):
        return {row["document_id"] for page in scan(place.client, live.name, ("document_id",), where) for row in page}


def has_ingested_page(place: Place, beginnings: Sequence[str]) -> bool:
    """Whether a public row that the ingestion wrote, of any collection, is cited below one of these addresses."""
    below = " or ".join(f"citation_url like {text_literal(beginning + '%')}" for beginning in beginnings)
    where = f"source != {text_literal(MANUAL_SOURCE)} and visibility == {text_literal(PUBLIC)} and ({below})"
    for spec in COLLECTIONS:
        served = schema.served_name(place.prefix, spec.alias)
        live = live_version(list_versions(place.client, served))
        if live is None:
            continue
        ensure_loaded(place.client, live.name)
        with store_errors(live.name):
            if place.client.query(live.name, filter=where, output_fields=[KEY_FIELD], limit=1):
                return True
    return False


def _state(row: dict[str, Any]) -> tuple[str, str]:
    return row["row_hash"], row["visibility"]


def _check_written(writer: Writer, wanted: dict[str, tuple[str, str]]) -> None:
    writer.check_written(wanted, ("row_hash", "visibility"), "write the document again")


def sync_manual_rows(spec: CollectionSpec, live: Version, target: Version, writer: Writer) -> None:
    """Makes a candidate hold the rows that people wrote, as the live version holds them now, vectors included.

    Args:
        spec: The collection.
        live: The version that is served; its vectors are of the same model.
        target: The candidate.
        writer: Writes the candidate.
    """
    client = writer.client
    before, after = manual_state(client, target.name), manual_state(client, live.name)
    fields = [*(field.name for field in spec.fields), VECTOR_FIELD]
    changed = (key for key, state in after.items() if before.get(key) != state)
    for keys in in_batches(changed, _VECTOR_KEYS):
        rows = rows_by_key(client, live.name, keys, fields)
        writer.upsert([{**stored_row(spec, row), VECTOR_FIELD: row[VECTOR_FIELD]} for row in rows])
    for keys in in_batches(iter(before.keys() - after.keys()), KEYS_PER_FILTER):
        writer.delete(keys)


def manual_state(client: MilvusClient, name: str) -> dict[str, tuple[str, str, str]]:
    """Returns what may change in the rows that people wrote, by key."""
    fields = [KEY_FIELD, "row_hash", "visibility", "updated_at"]
    where = f"source == {text_literal(MANUAL_SOURCE)}"
    with store_errors(name):
        return {
            row[KEY_FIELD]: (row["row_hash"], row["visibility"], row["updated_at"])
            for page in scan(client, name, fields, where)
            for row in page
        }
