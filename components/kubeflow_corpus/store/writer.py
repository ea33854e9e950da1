"""Writing rows into a version, and reading back what was written or deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import KEY_FIELD
from kubeflow_corpus.errors import StoreError
from kubeflow_corpus.milvus import checked_texts, store_errors
from kubeflow_corpus.retry import Backoff, until_empty
from kubeflow_corpus.store.lease import Lease
from kubeflow_corpus.store.rows import KEYS_PER_FILTER, in_batches, rows_by_key
from kubeflow_corpus.store.schema import keys_filter

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# One upsert: a request may have 64 MiB, and a row up to 130 kB of text and some kB of vector.
UPSERT_ROWS: Final = 256
UPSERT_BYTES: Final = 8 * 1024 * 1024
# A server may need a moment until a flushed row is read everywhere.
READ_BACK_TRIES: Final = Backoff(attempts=4, base=1.0, factor=1.0)


@dataclass(slots=True)
class Writer:
    """One version that is being written, and what has been done to it so far."""

    client: MilvusClient
    lease: Lease
    name: str
    rows_written: int = 0
    rows_deleted: int = 0
    bytes: Counter[str] = field(default_factory=Counter)

    def upsert(self, rows: list[dict[str, Any]]) -> None:
        """Writes rows, over those of the same keys."""
        with store_errors(self.name), checked_texts():
            self.client.upsert(self.name, rows)
        self.rows_written += len(rows)
        self.lease.renew()

    def delete(self, keys: list[str]) -> None:
        """Deletes rows; the caller has flushed what replaces them."""
        with store_errors(self.name):
            self.client.delete(self.name, filter=keys_filter(KEY_FIELD, keys))
        self.rows_deleted += len(keys)
        self.lease.renew()

    def flush(self) -> None:
        """Makes what was written durable and fast to search. Slow on a server: once a phase."""
        self.lease.renew()
        with store_errors(self.name):
            self.client.flush(self.name)
        self.lease.renew()

    def check_written(
        self, wanted: Mapping[str, tuple[str, ...]], fields: Sequence[str], then: str = "run again"
    ) -> None:
        """Reads rows back until they are as they were written.

        Args:
            wanted: Values of the fields, by key.
            fields: Fields to compare.
            then: What to do once the server is well, for the error.

        Raises:
            StoreError: A row does not come back.
        """
        missing = set(wanted)

        def look() -> list[str]:
            for keys in in_batches(iter(sorted(missing)), KEYS_PER_FILTER):
                with store_errors(self.name):
                    rows = rows_by_key(self.client, self.name, keys, [KEY_FIELD, *fields])
                missing.difference_update(
                    row[KEY_FIELD] for row in rows if tuple(row[field] for field in fields) == wanted[row[KEY_FIELD]]
                )
            return sorted(missing)

        if lost := until_empty(look, READ_BACK_TRIES):
            raise lost_rows(self.name, lost, then)

    def check_deleted(self, keys: list[str]) -> None:
        """Reads deleted rows, at most `KEYS_PER_FILTER`, until they are gone.

        Raises:
            StoreError: A row is still there.
        """

        def look() -> list[dict[str, Any]]:
            with store_errors(self.name):
                return rows_by_key(self.client, self.name, keys, [KEY_FIELD])

        if left := until_empty(look, READ_BACK_TRIES):
            raise StoreError(
                f"{self.name}: {len(left)} deleted rows are still there, such as {left[0][KEY_FIELD]}",
                remedy="Look at the Milvus server, then run again",
            )


def lost_rows(name: str, keys: Sequence[str], then: str = "run again") -> StoreError:
    """Returns the error for rows that were written to a collection and do not come back."""
    return StoreError(
        f"{name}: {len(keys)} rows that were written do not come back, such as {keys[0]}",
        remedy=f"Nothing was deleted: look at the Milvus server, then {then}",
    )
