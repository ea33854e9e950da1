"""What each alias serves, how old it is, and how the last run ended."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubeflow_corpus.collections import COLLECTIONS, CollectionSpec
from kubeflow_corpus.milvus import detect_backend
from kubeflow_corpus.store import schema
from kubeflow_corpus.store.gate import collect_figures
from kubeflow_corpus.store.lease import Claim
from kubeflow_corpus.store.schema import served_name
from kubeflow_corpus.store.versions import Version, list_versions, live_version, summary

if TYPE_CHECKING:
    from pymilvus import MilvusClient


def collect_status(
    client: MilvusClient, prefix: str = "", specs: Sequence[CollectionSpec] = COLLECTIONS
) -> list[dict[str, Any]]:
    """Returns the state of each collection, as ``status --json`` prints it.

    Args:
        client: The connection.
        prefix: The environment's prefix.
        specs: Which collections.

    Raises:
        StoreError: Milvus failed.
    """
    backend = detect_backend(client)
    return [_state(client, spec, served_name(prefix, spec.alias), backend.version) for spec in specs]


def _state(client: MilvusClient, spec: CollectionSpec, served: str, backend: str) -> dict[str, Any]:
    versions = list_versions(client, served)
    live = live_version(versions)
    state: dict[str, Any] = {
        "alias": spec.alias,
        "served_as": served,
        "backend": backend,
        "live": live.name if live else None,
        "versions": [summary(version, _recorded_rows(version)) for version in versions],
        "writer": _writer(versions),
    }
    if live is None:
        return state
    found = collect_figures(client, live.name)
    heads = live.prefixed(schema.HEAD_PREFIX)
    fetched = live.prefixed(schema.FETCHED_PREFIX)
    cursors = live.prefixed(schema.CURSOR_PREFIX)
    return {
        **state,
        **{key: value for key, value in summary(live, found.total).items() if key not in ("name", "version", "state")},
        "documents": found.documents,
        "documents_by_area": found.area_documents,
        "rows_by_area": dict(sorted(found.areas.items())),
        "sources": {
            source: {"head": head, "fetched_at": fetched.get(source, ""), "cursor": cursors.get(source, "")}
            for source, head in sorted(heads.items())
        },
        "newest_data": found.newest,
        "newest_data_age_days": age_days(found.newest),
        "last_run": run_of(live),
    }


def run_of(version: Version) -> dict[str, Any] | None:
    """Returns what a version records of its last run, or None."""
    try:
        record = json.loads(version.properties.get(schema.RUN_KEY) or "null")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _recorded_rows(version: Version) -> int:
    # Counting a version that is not served would load it into the server's memory.
    record = run_of(version) or {}
    return int(record.get("rows", {}).get("rows_held", 0))


def _writer(versions: list[Version]) -> dict[str, Any] | None:
    claims = (Claim.loads(version.properties.get(schema.LEASE_KEY, "")) for version in versions)
    for claim in claims:
        if claim is not None and claim.expires_at > time.time():
            left = round(claim.expires_at - time.time())
            return {"run": claim.run, "host": claim.host, "lease_ends_in_seconds": left}
    return None


def age_days(timestamp: str, at: datetime | None = None) -> float | None:
    """Returns how many days ago an ISO 8601 time is, or None if the text is not a time."""
    try:
        then = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return round(((at or datetime.now(UTC)) - then).total_seconds() / 86_400, 1)


def readable(states: Sequence[dict[str, Any]]) -> str:
    """Returns the same for a person."""
    return "\n\n".join("\n".join(_lines(state)) for state in states)


def _lines(state: dict[str, Any]) -> list[str]:
    name = state["served_as"]
    if state["live"] is None:
        kept = ", ".join(f"{version['name']} ({version['state']})" for version in state["versions"])
        return [f"{name}: nothing is served" + (f"; {kept}" if kept else ""), *_writer_line(state)]
    lines = [
        f"{name} -> {state['live']}   {state['rows']:,} rows, {sum(state['documents'].values()):,} documents",
        f"  model      {state['model']}, {state['dimension']} dimensions, {state['token_budget']} tokens",
        f"  made with  schema {state['schema_version']}, chunker {state['chunker_version']}, "
        f"analyzer {state['analyzer']} on {state['backend']}",
        f"  newest     {state['newest_data'] or 'unknown'}{_ago(state['newest_data_age_days'])}",
        f"  last run   {_run_line(state['last_run'])}",
        f"  documents  {_counts(state['documents'])}",
        f"  areas      {_counts(state['documents_by_area'])}",
        *(
            f"  source     {source}: {facts['head'][:12]}, fetched {facts['fetched_at'] or 'never'}"
            + (f", cursor {facts['cursor']}" if facts["cursor"] else "")
            for source, facts in state["sources"].items()
        ),
        f"  versions   {', '.join(_version(version) for version in state['versions'])}",
    ]
    return [*lines, *_writer_line(state)]


def _ago(days: float | None) -> str:
    return "" if days is None else f" ({days:g} days ago)"


def _run_line(record: dict[str, Any] | None) -> str:
    if record is None:
        return "unknown"
    states = {
        state: sum(counts.get(state, 0) for counts in record.get("documents", {}).values())
        for state in ("added", "changed", "deleted", "unchanged")
    }
    failed = ", ".join(item["source"] for item in record.get("failed", ()))
    return (
        f"{record['mode']} {record['outcome']} at {record['finished_at']}: {_counts(states)} documents, "
        f"{record['embedded']:,} texts embedded, {record['reused']:,} reused"
        + (f"; failed: {failed}" if failed else "")
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _version(version: dict[str, Any]) -> str:
    return f"v{version['version']} {version['state']}"


def _writer_line(state: dict[str, Any]) -> list[str]:
    writer = state["writer"]
    if writer is None:
        return []
    return [f"  writer     run {writer['run']} on {writer['host']}, lease ends in {writer['lease_ends_in_seconds']} s"]
