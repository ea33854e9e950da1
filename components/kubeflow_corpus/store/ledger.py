"""Stored and wanted rows side by side on disk, so that no run keeps a whole corpus in memory.

A scratch SQLite file holds keys and hashes only: no text, no vector. Every decision of a sync is one query over it.
Vectors, and rows that are sure to be written, lie in plain files beside it.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import MANUAL_SOURCE
from kubeflow_corpus.errors import InvalidRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STORED_FIELDS: Final = ("id", "document_id", "source", "row_hash", "embedding_hash", "revision")

# `place` numbers the collections that are compared: the one that is written is 0, the one that is served is 1.
TARGET: Final = 0
SERVED: Final = 1
READ_BACK: Final = 2

_SCHEMA: Final = """
CREATE TABLE stored (place INTEGER, id TEXT, document_id TEXT, source TEXT, row_hash TEXT, embedding_hash TEXT,
    revision TEXT, PRIMARY KEY (place, id)) WITHOUT ROWID;
CREATE TABLE wanted (id TEXT PRIMARY KEY, document_id TEXT, source TEXT, row_hash TEXT, embedding_hash TEXT)
    WITHOUT ROWID;
CREATE TABLE fetched (source TEXT PRIMARY KEY, complete INTEGER);
CREATE TABLE refused (document_id TEXT PRIMARY KEY);
CREATE TABLE removed (source TEXT, document_id TEXT, PRIMARY KEY (source, document_id));
CREATE TABLE dropped (place INTEGER, source TEXT, PRIMARY KEY (place, source));
CREATE TABLE documents (place INTEGER, document_id TEXT, source TEXT, state TEXT, PRIMARY KEY (place, document_id))
    WITHOUT ROWID;
CREATE TABLE vectors (embedding_hash TEXT PRIMARY KEY, position INTEGER) WITHOUT ROWID;
"""
_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS stored_text ON stored (embedding_hash);
CREATE INDEX IF NOT EXISTS stored_document ON stored (place, document_id);
CREATE INDEX IF NOT EXISTS wanted_text ON wanted (embedding_hash);
CREATE INDEX IF NOT EXISTS wanted_document ON wanted (document_id);
"""
# A document is unchanged where the same rows with the same hashes are stored, all of one revision: a run that was
# killed can leave rows of two. Then nothing of it is written and its provenance stays as it is.
_DECIDE: Final = """
INSERT INTO documents
SELECT :place, w.document_id, w.source,
    CASE WHEN h.n IS NULL THEN 'added' WHEN h.n = w.n AND m.n = w.n AND h.revisions = 1 THEN 'unchanged'
    ELSE 'changed' END
FROM (SELECT document_id, min(source) AS source, count(*) AS n FROM wanted GROUP BY document_id) w
LEFT JOIN (SELECT document_id, count(*) AS n, count(DISTINCT revision) AS revisions FROM stored WHERE place = :place
    GROUP BY document_id) h USING (document_id)
LEFT JOIN (SELECT wanted.document_id, count(*) AS n FROM wanted JOIN stored ON stored.place = :place
    AND stored.id = wanted.id AND stored.row_hash = wanted.row_hash AND stored.embedding_hash = wanted.embedding_hash
    GROUP BY wanted.document_id) m USING (document_id);
"""
# Gone: not wanted any more, in a source that was fetched completely; or known to be deleted; or of a source that the
# run has to drop. A document with a row that was refused is neither written nor gone.
_GONE: Final = """
INSERT INTO documents
SELECT DISTINCT :place, stored.document_id, stored.source, 'deleted'
FROM stored LEFT JOIN fetched USING (source)
WHERE stored.place = :place AND stored.source <> :manual
    AND stored.document_id NOT IN (SELECT document_id FROM wanted)
    AND stored.document_id NOT IN (SELECT document_id FROM refused)
    AND (fetched.complete = 1
        OR (fetched.source IS NOT NULL
            AND (stored.source, stored.document_id) IN (SELECT source, document_id FROM removed))
        OR stored.source IN (SELECT source FROM dropped WHERE place = :place));
"""
_STALE: Final = """
FROM stored JOIN documents ON documents.place = stored.place AND documents.document_id = stored.document_id
WHERE stored.place = 0 AND stored.source <> :manual AND (documents.state = 'deleted'
    OR (documents.state = 'changed' AND stored.id NOT IN (SELECT id FROM wanted)))
"""
_WRITTEN: Final = """
FROM wanted JOIN documents ON documents.place = 0 AND documents.document_id = wanted.document_id
    AND documents.state IN ('added', 'changed')
"""


class Ledger:
    """The scratch database of one step.

    Args:
        folder: Where its files go; what an earlier try left there is replaced.
        dimension: Length of the vectors that it spools.
    """

    def __init__(self, folder: Path, dimension: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "ledger.sqlite"
        for leftover in folder.glob("ledger.sqlite*"):
            leftover.unlink()
        self._db = sqlite3.connect(path, isolation_level=None)
        # Scratch: a crash throws it away, so nothing is gained by syncing it.
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN")
        self._dimension = dimension
        self._spool_path = folder / "vectors.f32"
        self._spool = self._spool_path.open("wb+")
        self._spooled = 0
        self._rows_path = folder / "rows.pickle"
        self._rows = self._rows_path.open("wb+")
        self._names: tuple[str, ...] = ()

    def close(self) -> None:
        """Closes and removes its files."""
        self._db.close()
        self._spool.close()
        self._rows.close()
        self._spool_path.unlink(missing_ok=True)
        self._rows_path.unlink(missing_ok=True)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What is stored

    def add_stored(self, place: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Notes rows that are stored in a collection."""
        values = ((place, *(row.get(name) or "" for name in STORED_FIELDS)) for row in rows)
        self._db.executemany("INSERT OR REPLACE INTO stored VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def stored_rows(self, place: int) -> int:
        """Returns how many rows are stored in a collection."""
        return int(self._db.execute("SELECT count(*) FROM stored WHERE place = ?", (place,)).fetchone()[0])

    def forget_stored(self, place: int) -> None:
        """Forgets the rows of a collection."""
        self._db.execute("DELETE FROM stored WHERE place = ?", (place,))

    # What is wanted

    def note_fetched(self, source: str, *, complete: bool) -> None:
        """Notes that a source was read in this run."""
        self._db.execute("INSERT INTO fetched VALUES (?, ?)", (source, complete))

    def add_wanted(self, key: str, document_id: str, source: str, row_hash: str, embedding_hash: str) -> None:
        """Notes a row that the target shall hold.

        Raises:
            InvalidRow: Another row has the same key.
        """
        added = self._db.execute(
            "INSERT OR IGNORE INTO wanted VALUES (?, ?, ?, ?, ?)", (key, document_id, source, row_hash, embedding_hash)
        )
        if added.rowcount == 0:
            raise InvalidRow(
                f"Two rows have the key {key} (the second is of document {document_id!r})",
                remedy="A document was read twice: look for two catalogue entries of one name, or report the chunker",
                id=key,
                field="id",
            )

    def keep_row(self, row: Mapping[str, Any]) -> None:
        """Keeps a wanted row on disk, for `kept_rows`: to read it from there takes a tenth of making it again."""
        self._names = self._names or tuple(row)
        pickle.dump(tuple(row.values()), self._rows, pickle.HIGHEST_PROTOCOL)

    def kept_rows(self) -> Iterator[dict[str, Any]]:
        """Streams the rows that were kept, in their order."""
        self._rows.seek(0)
        while True:
            try:
                values = pickle.load(self._rows)
            except EOFError:
                return
            yield dict(zip(self._names, values, strict=True))

    def refuse_document(self, document_id: str) -> None:
        """Leaves a document as it is stored: it could not be read, or one of its new rows cannot be stored."""
        self._db.execute("INSERT OR IGNORE INTO refused VALUES (?)", (document_id,))

    def note_removed(self, source: str, document_ids: Iterable[str]) -> None:
        """Notes documents of a source that are known to be deleted."""
        self._db.executemany("INSERT OR IGNORE INTO removed VALUES (?, ?)", ((source, key) for key in document_ids))

    def drop_source(self, place: int, source: str) -> None:
        """Notes that the stored rows of a source shall go, whether or not it was fetched."""
        self._db.execute("INSERT OR IGNORE INTO dropped VALUES (?, ?)", (place, source))

    def build_indexes(self) -> None:
        """Call once when everything is noted: bulk inserts are faster without indexes."""
        self._db.execute("COMMIT")
        self._db.executescript(_INDEXES)
        self._db.execute("BEGIN")

    def wanted_by_source(self) -> dict[str, tuple[int, int]]:
        """Returns how many documents and rows are wanted, by source."""
        query = "SELECT source, count(DISTINCT document_id), count(*) FROM wanted GROUP BY source"
        return {source: (documents, rows) for source, documents, rows in self._db.execute(query)}

    # Decisions

    def compare(self, place: int) -> None:
        """Compares what is wanted with what is stored in a collection, document by document."""
        values = {"place": place, "manual": MANUAL_SOURCE}
        self._db.execute(_DECIDE, values)
        self._db.execute(_GONE, values)

    def documents(self, place: int) -> dict[str, dict[str, int]]:
        """Returns the number of documents by source and state (added, changed, unchanged, deleted)."""
        query = "SELECT source, state, count(*) FROM documents WHERE place = ? GROUP BY source, state ORDER BY source"
        found: dict[str, dict[str, int]] = {}
        for source, state, count in self._db.execute(query, (place,)):
            found.setdefault(source, {})[state] = count
        return found

    def document_state(self, document_id: str) -> str:
        """Returns what the target needs of a document: added, changed, unchanged, or "" where it is not wanted."""
        found = self._db.execute(
            "SELECT state FROM documents WHERE place = 0 AND document_id = ?", (document_id,)
        ).fetchone()
        return str(found[0]) if found else ""

    def stored_documents(self, place: int) -> dict[str, int]:
        """Returns the number of documents that are stored in a collection, by source."""
        query = "SELECT source, count(DISTINCT document_id) FROM stored WHERE place = ? GROUP BY source"
        return dict(self._db.execute(query, (place,)).fetchall())

    def counts(self) -> dict[str, int]:
        """Returns rows to write, rows to delete, and distinct texts that are wanted by the rows to write."""
        one = self._db.execute
        return {
            "rows_wanted": one("SELECT count(*) FROM wanted").fetchone()[0],
            "rows_to_write": one(f"SELECT count(*) {_WRITTEN}").fetchone()[0],
            "rows_to_delete": one(f"SELECT count(*) {_STALE}", {"manual": MANUAL_SOURCE}).fetchone()[0],
            "texts": one(f"SELECT count(DISTINCT wanted.embedding_hash) {_WRITTEN}").fetchone()[0],
        }

    def expected_rows(self) -> int:
        """Returns how many rows the target holds once everything is written and deleted."""
        one = self._db.execute
        stored = one("SELECT count(*) FROM stored WHERE place = 0").fetchone()[0]
        new = one(
            f"SELECT count(*) {_WRITTEN} WHERE wanted.id NOT IN (SELECT id FROM stored WHERE place = 0)"
        ).fetchone()[0]
        return int(stored + new - one(f"SELECT count(*) {_STALE}", {"manual": MANUAL_SOURCE}).fetchone()[0])

    def stale_keys(self) -> Iterator[str]:
        """Streams the keys of stored rows of the target that are not wanted."""
        query = f"SELECT stored.id {_STALE} ORDER BY stored.id"
        return (key for (key,) in self._db.execute(query, {"manual": MANUAL_SOURCE}))

    def written_rows(self) -> Iterator[tuple[str, str, str]]:
        """Streams (id, row hash, embedding hash) of the rows that a sync writes."""
        yield from self._db.execute(f"SELECT wanted.id, wanted.row_hash, wanted.embedding_hash {_WRITTEN} ORDER BY 1")

    def not_read_back(self) -> list[str]:
        """Returns keys of rows to write that place `READ_BACK` does not hold as they were written."""
        query = (
            f"SELECT wanted.id {_WRITTEN} WHERE NOT EXISTS (SELECT 1 FROM stored WHERE stored.place = ? "
            "AND stored.id = wanted.id AND stored.row_hash = wanted.row_hash "
            "AND stored.embedding_hash = wanted.embedding_hash)"
        )
        return [key for (key,) in self._db.execute(query, (READ_BACK,))]

    def missing_texts(self) -> set[str]:
        """Returns the embedding hashes of rows to write for which no vector is stored in a compared collection."""
        query = (
            f"SELECT DISTINCT wanted.embedding_hash {_WRITTEN} "
            "WHERE NOT EXISTS (SELECT 1 FROM stored WHERE stored.embedding_hash = wanted.embedding_hash)"
        )
        return {text for (text,) in self._db.execute(query)}

    def reusable_vectors(self) -> Iterator[tuple[int, str, str]]:
        """Streams (place, id, embedding hash): one stored row with its vector per text that is wanted and stored."""
        query = (
            "SELECT min(stored.place), stored.id, stored.embedding_hash FROM stored WHERE stored.embedding_hash IN "
            f"(SELECT wanted.embedding_hash {_WRITTEN}) "
            "AND stored.embedding_hash NOT IN (SELECT embedding_hash FROM vectors) "
            "GROUP BY stored.embedding_hash ORDER BY 1, 2"
        )
        yield from self._db.execute(query)

    # Vectors

    def add_vectors(self, hashes: list[str], vectors: NDArray[np.float32]) -> None:
        """Spools vectors to disk, each text once.

        Args:
            hashes: n embedding hashes.
            vectors: Array of shape (n, dimension).
        """
        import numpy as np

        self._spool.seek(0, 2)
        for text, vector in zip(hashes, np.ascontiguousarray(vectors, dtype=np.float32), strict=True):
            added = self._db.execute("INSERT OR IGNORE INTO vectors VALUES (?, ?)", (text, self._spooled))
            if added.rowcount:
                self._spool.write(vector.tobytes())
                self._spooled += 1

    def vector(self, text: str) -> NDArray[np.float32] | None:
        """Returns a spooled vector of shape (dimension,), or None."""
        import numpy as np

        found = self._db.execute("SELECT position FROM vectors WHERE embedding_hash = ?", (text,)).fetchone()
        if found is None:
            return None
        width = 4 * self._dimension
        self._spool.seek(found[0] * width)
        return np.frombuffer(self._spool.read(width), dtype=np.float32)

    def count_without_vector(self) -> int:
        """Returns how many texts of rows to write have no spooled vector."""
        query = (
            f"SELECT count(DISTINCT wanted.embedding_hash) {_WRITTEN} "
            "WHERE wanted.embedding_hash NOT IN (SELECT embedding_hash FROM vectors)"
        )
        return int(self._db.execute(query).fetchone()[0])
