"""Versions of a collection: which there are, which one an alias serves, and the moves between them.

A version is a physical collection ``<alias>_v<N>``. Creating it reserves its number. It is a *candidate* until
`published_at` is recorded, and may be served again for as long as it is kept. Nothing here drops what an alias serves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubeflow_corpus.collections import CollectionSpec
from kubeflow_corpus.errors import CollectionNotFound, SchemaMismatch, StoreError, VersionInUse
from kubeflow_corpus.milvus import Backend, read_with_retry, store_errors
from kubeflow_corpus.model import ModelIdentity, Recipe
from kubeflow_corpus.retry import Backoff
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.rows import count_rows
from kubeflow_corpus.store.schema import served_name, version_number

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# Published versions that are kept beside the one that is served.
KEPT_VERSIONS: Final = 2

_CREATE_ATTEMPTS: Final = 5
# A server may need seconds until every reader gets to the version that an alias was moved to.
_ALIAS_MOVE: Final = Backoff(attempts=20, base=0.25, factor=1.0)


@dataclass(frozen=True, slots=True)
class Version:
    """One physical collection of an alias.

    Attributes:
        name: Its name.
        number: The N of ``_v<N>``.
        live: Whether the alias points to it.
        properties: What it records; every value is a string.
    """

    name: str
    number: int
    live: bool
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def published(self) -> bool:
        """Whether it was served once, so that it may be served again."""
        return self.live or bool(self.properties.get(schema.PUBLISHED_AT_KEY))

    @property
    def complete(self) -> bool:
        """Whether its last run wrote everything that it wanted."""
        return bool(self.properties.get(schema.COMPLETED_AT_KEY))

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Returns the non-empty properties of a family (`HEAD_PREFIX`, `CURSOR_PREFIX`), by what follows the prefix."""
        return {key[len(prefix) :]: value for key, value in self.properties.items() if key.startswith(prefix) and value}

    def same_model(self, identity: ModelIdentity) -> bool:
        """Whether its vectors are of this model and may be reused."""
        return bool(self.properties.get(schema.MODEL_KEY)) and not schema.model_difference(self.properties, identity)


def recipe_properties(recipe: Recipe, spec: CollectionSpec, backend: Backend) -> dict[str, str]:
    """Returns what a version made with a recipe records."""
    return {
        schema.SCHEMA_VERSION_KEY: recipe.schema_version,
        schema.CHUNKER_VERSION_KEY: recipe.chunker_version,
        schema.TOKEN_BUDGET_KEY: str(recipe.token_budget),
        schema.MODEL_KEY: recipe.identity.model,
        schema.MODEL_REVISION_KEY: recipe.identity.revision,
        schema.DIMENSION_KEY: str(recipe.identity.dimension),
        schema.QUERY_PREFIX_KEY: schema.quoted(recipe.identity.query_prefix),
        schema.DOCUMENT_PREFIX_KEY: schema.quoted(recipe.identity.document_prefix),
        schema.POOLING_KEY: recipe.identity.pooling,
        schema.ANALYZER_KEY: schema.analyzer_name(spec, backend),
    }


def now() -> str:
    """Returns the time as ISO 8601 UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def live_name(client: MilvusClient, served: str) -> str:
    """Returns the physical collection that an alias points to, or "".

    Looks in the list first: asking for an alias that does not exist makes some backends log a traceback.
    """
    with store_errors(served):
        if served not in read_with_retry(client.list_aliases)["aliases"]:
            return ""
        return str(read_with_retry(lambda: client.describe_alias(served))["collection_name"])


def properties_of(client: MilvusClient, name: str) -> dict[str, str]:
    """Returns the properties of a collection, every value as a string."""
    with store_errors(name):
        described = read_with_retry(lambda: client.describe_collection(name))
    return {str(key): str(value) for key, value in described.get("properties", {}).items()}


def list_versions(client: MilvusClient, served: str) -> list[Version]:
    """Returns the versions of an alias, the oldest first."""
    with store_errors(served):
        names = read_with_retry(client.list_collections)
    live = live_name(client, served)
    numbered = sorted((number, name) for name in names if (number := version_number(served, name)) is not None)
    return [Version(name, number, name == live, properties_of(client, name)) for number, name in numbered]


def refuse_foreign(client: MilvusClient, served: str) -> None:
    """Refuses an alias that leads to a collection that this program did not make, before any work is done for it.

    Raises:
        SchemaMismatch: A collection has the name of the alias or of one of its versions, or the alias leads elsewhere.
    """
    with store_errors(served):
        names = read_with_retry(client.list_collections)
    live = live_name(client, served)
    found = served if served in names else live if live and version_number(served, live) is None else ""
    if not found:
        unknown = (
            version.name
            for version in list_versions(client, served)
            if schema.SCHEMA_VERSION_KEY not in version.properties
        )
        found = next(unknown, "")
    if found:
        raise SchemaMismatch(
            f"Collection {found} was not made by this program, and it has the place of alias {served}",
            remedy="Set COLLECTION_PREFIX or MILVUS_DATABASE to keep apart from it, or drop or rename that collection",
            collection=found,
        )


def live_version(versions: Iterable[Version]) -> Version | None:
    """Returns the one that is served, if any is."""
    return next((version for version in versions if version.live), None)


def find_version(client: MilvusClient, served: str, number: int) -> Version:
    """Returns one version.

    Raises:
        CollectionNotFound: It is not kept.
    """
    versions = list_versions(client, served)
    for version in versions:
        if version.number == number:
            return version
    kept = ", ".join(f"v{version.number}" for version in versions) or "none"
    raise CollectionNotFound(f"{served} has no version {number}", remedy=f"Kept versions: {kept}")


def set_properties(client: MilvusClient, name: str, values: Mapping[str, str]) -> None:
    """Writes properties in one atomic step. An empty value stands for an absent one: old servers cannot remove any."""
    with store_errors(name):
        client.alter_collection_properties(name, dict(values))


def create_version(
    client: MilvusClient,
    spec: CollectionSpec,
    served: str,
    backend: Backend,
    recipe: Recipe,
    extra: Mapping[str, str],
    dense_index: str = "FLAT",
) -> Version:
    """Creates the next version, which reserves its number.

    Args:
        client: The connection.
        spec: The collection.
        served: Its alias with the environment's prefix.
        backend: What the connection leads to.
        recipe: Recorded in the properties.
        extra: Further properties, such as the lease.
        dense_index: ``FLAT`` or ``HNSW``.

    Raises:
        StoreError: No number was free, or Milvus failed.
    """
    from pymilvus.exceptions import MilvusException

    taken = [version.number for version in list_versions(client, served)]
    first = max(taken, default=0) + 1
    properties = {**recipe_properties(recipe, spec, backend), schema.CREATED_AT_KEY: now(), **extra}
    # A kill inside Milvus Lite's own creation leaves a folder that is not a collection and blocks its name.
    for number in range(first, first + _CREATE_ATTEMPTS):
        name = schema.physical_name(served, number)
        try:
            with store_errors(name):
                client.create_collection(
                    name,
                    schema=schema.collection_schema(spec, backend, recipe.identity.dimension),
                    properties=properties,
                    consistency_level="Bounded",
                )
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, MilvusException) and "exists" in str(cause).lower():
                continue
            raise
        # A server that does not know a property at creation drops it silently, so it is written again and read back.
        set_properties(client, name, properties)
        ensure_indexed(client, name, backend, dense_index)
        return Version(name, number, False, properties_of(client, name))
    raise StoreError(f"{served}: no version number is free from {first} on", remedy="Run kubeflow-corpus prune")


def ensure_indexed(client: MilvusClient, name: str, backend: Backend, dense_index: str = "FLAT") -> list[str]:
    """Completes a version that lacks an index, because its creation was killed or somebody dropped it, and loads it.

    Returns:
        The fields that had none.
    """
    fields = [schema.VECTOR_FIELD, *([schema.SPARSE_FIELD] if backend.bm25 else [])]
    with store_errors(name):
        # One by one: a kill can leave the first of two, and an index that exists cannot be created again.
        missing = [field for field in fields if not client.list_indexes(name, field_name=field)]
        if missing:
            # Loading waits for the indexes of a server; waiting here costs one second per index on Milvus Lite.
            client.create_index(name, schema.index_params(backend, dense_index, missing), sync=False)
    ensure_loaded(client, name)
    return missing


def ensure_loaded(client: MilvusClient, name: str) -> None:
    """Makes a collection searchable: after a restart of the backend it is not."""
    with store_errors(name):
        client.load_collection(name)


def move_alias(
    client: MilvusClient, served: str, target: str, expected: str, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Points an alias to a version, and checks that readers get there.

    Args:
        client: The connection.
        served: The alias.
        target: Physical name.
        expected: Where the alias must point now ("" for nowhere): another writer may have moved it.
        sleep: Instead of `time.sleep`, for tests.

    Raises:
        StoreError: The alias points elsewhere than expected, or did not arrive.
    """
    found = live_name(client, served)
    if found == target:
        return
    if found != expected:
        raise StoreError(
            f"Alias {served} points to {found or 'nothing'}, not to {expected or 'nothing'} as when this run began",
            remedy="Another writer published in between: run again",
            expected=expected,
            found=found,
        )
    ensure_loaded(client, target)
    rows = count_rows(client, target)
    with store_errors(served):
        if found:
            client.alter_alias(target, served)
        else:
            client.create_alias(target, served)
    for _ in _ALIAS_MOVE.tries(sleep):
        with store_errors(served):
            if live_name(client, served) == target and count_rows(client, served) == rows:
                return
    raise StoreError(
        f"Alias {served} was moved to {target}, but readers do not get its {rows} rows",
        remedy="Look at kubeflow-corpus status; kubeflow-corpus rollback serves the earlier version again",
    )


def drop_version(client: MilvusClient, served: str, version: Version) -> None:
    """Drops a version that no alias serves.

    Raises:
        VersionInUse: An alias points to it.
    """
    with store_errors(version.name):
        # Milvus Lite and old servers drop the target of an alias silently.
        aliases = read_with_retry(lambda: client.list_aliases(version.name))["aliases"]
    if aliases or live_name(client, served) == version.name:
        raise VersionInUse(
            f"{version.name} is served by alias {', '.join(aliases) or served}",
            remedy="Roll back to another version first, then drop it",
        )
    # A drop that is killed half-way can leave a collection without its rows: it must not look like one to serve.
    set_properties(client, version.name, {schema.PUBLISHED_AT_KEY: "", schema.COMPLETED_AT_KEY: ""})
    with store_errors(version.name):
        client.drop_collection(version.name)


def prune_versions(
    client: MilvusClient, served: str, keep: int = KEPT_VERSIONS, *, candidates: bool = True, dry_run: bool = False
) -> list[Version]:
    """Drops versions that nothing serves.

    Args:
        client: The connection.
        served: The alias.
        keep: Published versions to keep beside the live one, the newest first.
        candidates: Also drop versions that were never published, unless a writer has a lease on them.
        dry_run: Only return which.

    Returns:
        What was dropped.
    """
    versions = list_versions(client, served)
    earlier = [version for version in versions if version.published and not version.live]
    doomed = earlier[: max(0, len(earlier) - keep)]
    if candidates:
        doomed += [version for version in versions if not version.published and not _is_leased(version)]
    if not dry_run:
        for version in doomed:
            drop_version(client, served, version)
    return doomed


def _is_leased(version: Version) -> bool:
    try:
        lease = json.loads(version.properties.get(schema.LEASE_KEY) or "{}")
        return float(lease.get("expires_at", 0)) > time.time()
    except (ValueError, TypeError, AttributeError):
        return False


def rollback(client: MilvusClient, spec: CollectionSpec, prefix: str, number: int | None = None) -> tuple[str, str]:
    """Serves an earlier version again.

    Args:
        client: The connection.
        spec: The collection.
        prefix: The environment's prefix.
        number: Which version; None is the newest published one before the live one.

    Returns:
        Names of the version that was served and of the one that is now.

    Raises:
        CollectionNotFound: There is no such version, or none that was ever published.
    """
    served = served_name(prefix, spec.alias)
    versions = list_versions(client, served)
    live = live_version(versions)
    if number is None:
        earlier = [
            version for version in versions if version.published and (live is None or version.number < live.number)
        ]
        if not earlier:
            raise CollectionNotFound(
                f"{served} has no earlier version to go back to", remedy="kubeflow-corpus versions lists what is kept"
            )
        target = earlier[-1]
    else:
        target = find_version(client, served, number)
    if not target.published:
        raise CollectionNotFound(
            f"{target.name} was never published: its gate did not pass, or its run did not end",
            remedy="Choose a published version (kubeflow-corpus versions), or rebuild",
        )
    before = live.name if live else ""
    move_alias(client, served, target.name, before)
    return before, target.name


def summary(version: Version, rows: int) -> dict[str, Any]:
    """Returns a version as `status` and `versions` show it."""
    state = (
        "live" if version.live else "kept" if version.published else "complete" if version.complete else "unfinished"
    )
    return {
        "name": version.name,
        "version": version.number,
        "state": state,
        "rows": rows,
        "created_at": version.properties.get(schema.CREATED_AT_KEY, ""),
        "published_at": version.properties.get(schema.PUBLISHED_AT_KEY, ""),
        "model": version.properties.get(schema.MODEL_KEY, ""),
        "dimension": int(version.properties.get(schema.DIMENSION_KEY) or 0),
        "analyzer": version.properties.get(schema.ANALYZER_KEY, ""),
        "schema_version": version.properties.get(schema.SCHEMA_VERSION_KEY, ""),
        "chunker_version": version.properties.get(schema.CHUNKER_VERSION_KEY, ""),
        "token_budget": int(version.properties.get(schema.TOKEN_BUDGET_KEY) or 0),
    }
