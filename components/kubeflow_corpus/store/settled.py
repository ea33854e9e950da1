"""Sources whose rows a version is known to hold exactly: a run in which none of them changed compares nothing.

A version records for each source a *fingerprint* of everything that its rows are made of (commit, catalogue entry,
model, program), with the number of its documents and rows. The records go before a writer touches a row, and come
back with the heads, in one step, once every row was read back. So a writer that was killed leaves none, and the next
run compares row by row, as it does where anything else is not as it was.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kubeflow_corpus.collections import MANUAL_SOURCE, CollectionSpec
from kubeflow_corpus.milvus import store_errors
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.context import SourceResult
from kubeflow_corpus.store.plan import Plan
from kubeflow_corpus.store.rows import count_rows
from kubeflow_corpus.store.schema import text_literal
from kubeflow_corpus.store.versions import Version, ensure_loaded, set_properties

if TYPE_CHECKING:
    from pymilvus import MilvusClient


@dataclass(frozen=True, slots=True)
class Settled:
    """What is stored of one source in a version.

    Attributes:
        fingerprint: Digest of everything that the rows are made of.
        documents: Number of its documents.
        rows: Number of its rows.
    """

    fingerprint: str
    documents: int
    rows: int

    def dumps(self) -> str:
        """Returns the property's value."""
        return json.dumps(asdict(self))

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `read_settled` reads a mapping of them back."""
        return asdict(self)


def read_recorded(version: Version) -> dict[str, Settled]:
    """Returns what a version records, by source, without the records that cannot be read."""
    found = {}
    for source, text in version.prefixed(schema.SETTLED_PREFIX).items():
        try:
            found[source] = Settled(**json.loads(text))
        except (ValueError, TypeError):
            continue
    return found


def settled_sources(client: MilvusClient, version: Version) -> dict[str, Settled]:
    """Returns what is stored of every source, if a version has no other rows and was served with passing gates.

    Args:
        client: The connection.
        version: The version that is served.

    Returns:
        Every source of the version; nothing where one of them has to be compared row by row.

    Raises:
        StoreError: Milvus failed.
    """
    found = read_recorded(version)
    if not found or found.keys() != version.prefixed(schema.HEAD_PREFIX).keys() or not _gates_passed(version):
        return {}
    ensure_loaded(client, version.name)
    with store_errors(version.name):
        rows = count_rows(client, version.name, f"source != {text_literal(MANUAL_SOURCE)}")
    return found if rows == sum(source.rows for source in found.values()) else {}


def _gates_passed(version: Version) -> bool:
    try:
        return bool(json.loads(version.properties.get(schema.RUN_KEY, ""))["outcome"] == "published")
    except (ValueError, TypeError, KeyError):
        return False


def settled_properties(results: Iterable[SourceResult], wanted: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Returns the records of the sources that a version now holds exactly.

    Args:
        results: What the sources gave; every row of it is stored.
        wanted: Documents and rows by source.
    """
    return {
        schema.SETTLED_PREFIX + result.source: Settled(result.fingerprint, *wanted[result.source]).dumps()
        for result in results
        if result.settles and result.source in wanted
    }


def unchanged_plan(
    spec: CollectionSpec,
    settled: Mapping[str, Settled],
    *,
    prefix: str,
    live: str,
    recipe: Recipe,
    run: str,
) -> Plan:
    """Returns the plan of a run in which no source changed, without a look at the collection.

    Args:
        spec: The collection.
        settled: What is stored of the sources of this run in the served version.
        prefix: The environment's prefix.
        live: Physical name of the version that is served.
        recipe: What its rows are made with.
        run: Id of the run.
    """
    rows = sum(source.rows for source in settled.values())
    return Plan(
        run=run or uuid.uuid4().hex,
        alias=spec.alias,
        prefix=prefix,
        mode="incremental",
        live=live,
        target=live,
        recipe=recipe,
        documents={
            name: {"unchanged": source.documents, "held": source.documents} for name, source in sorted(settled.items())
        },
        rows={"rows_wanted": rows, "rows_to_write": 0, "rows_to_delete": 0},
        settled={name: source.fingerprint for name, source in settled.items()},
    )


def read_settled(data: Mapping[str, Any]) -> dict[str, Settled]:
    """Reads a mapping of what `Settled.to_dict` returned, by source."""
    return {source: Settled(**values) for source, values in data.items()}


def clear_settled(client: MilvusClient, version: Version) -> None:
    """Removes every record of a version, before rows are written or deleted."""
    records = version.prefixed(schema.SETTLED_PREFIX)
    if records:
        set_properties(client, version.name, {schema.SETTLED_PREFIX + source: "" for source in records})
