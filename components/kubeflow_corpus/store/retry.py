"""Documents at which a run failed: recorded with the version that lacks them, so that the next run tries them again.

A source that is read whole tries every document anyway; a crawl goes on behind what it has read, and needs to be told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.collections import CollectionSpec
from kubeflow_corpus.model import Recipe
from kubeflow_corpus.records import FailedDocument
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.context import Mode, RunContext, resolve
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import Version, list_versions

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# More than these are not a matter of single documents: a crawl then begins again from the start.
MOST_RETRIED: Final = 2_000


def read_retries(version: Version) -> dict[str, tuple[str, ...]]:
    """Returns the documents at which the last run failed, by source, without records that cannot be read."""
    found = {}
    for source, text in version.prefixed(schema.RETRY_PREFIX).items():
        try:
            found[source] = tuple(map(str, json.loads(text)))
        except (ValueError, TypeError):
            continue
    return found


def documents_to_retry(
    client: MilvusClient, spec: CollectionSpec, *, prefix: str = "", recipe: Recipe, mode: Mode = "incremental"
) -> dict[str, tuple[str, ...]]:
    """Returns the documents at which the run failed that a run of this kind goes on behind, by source.

    Args:
        client: The connection.
        spec: The collection.
        prefix: The environment's prefix.
        recipe: What the rows of this run are made with.
        mode: What was asked for.
    """
    versions = list_versions(client, served_name(prefix, spec.alias))
    target = resolve(client, spec, recipe, versions, mode).target
    return read_retries(target) if target else {}


def retry_properties(context: RunContext, target: Version, refused: Iterable[FailedDocument]) -> dict[str, str]:
    """Returns what a version records of the documents at which this run failed.

    Args:
        context: The run.
        target: The version that it writes.
        refused: Documents that could not be stored.
    """
    before, values = read_retries(target), dict[str, str]()
    not_stored: dict[str, list[str]] = {}
    for document in refused:
        not_stored.setdefault(document.source, []).append(document.document_id)
    for result in context.results:
        if not result.ok:
            continue
        # A run that was asked for some documents says nothing about the others.
        kept = before.get(result.source, ()) if result.partial else ()
        failed = sorted({*kept, *result.failed_documents, *not_stored.get(result.source, ())})
        if failed or result.source in before:
            values[schema.RETRY_PREFIX + result.source] = json.dumps(failed[:MOST_RETRIED]) if failed else ""
        if len(failed) > MOST_RETRIED and not result.partial:
            values[schema.CURSOR_PREFIX + result.source] = ""
    return values
