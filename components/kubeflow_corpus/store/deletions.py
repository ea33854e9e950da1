"""How many documents of each source were deleted lately: many small deletions are one large one.

The guard of a run sees its own deletions alone. A source that is taken apart piece by piece, by a webhook for each
push, would pass it each time; so a version records what was deleted, and the guard counts what the last day took.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from typing import Final

from kubeflow_corpus.store.versions import Version

DELETIONS_KEY: Final = "deletions"
WINDOW_SECONDS: Final = 24 * 3600

# Seconds since the epoch and documents, by source.
Deletions = dict[str, list[tuple[float, int]]]


def recent_deletions(version: Version | None, now: float | None = None) -> dict[str, int]:
    """Returns how many documents of each source were deleted in the last day."""
    found = _within(version, time.time() if now is None else now)
    return {source: sum(count for _, count in times) for source, times in found.items()}


def deletions_property(
    version: Version | None, deleted: Mapping[str, int], allowed: Collection[str], now: float | None = None
) -> dict[str, str]:
    """Returns what a version records after a run.

    Args:
        version: What recorded it before.
        deleted: Documents that the run deleted, by source.
        allowed: Sources of which somebody allowed any deletion: what is left of them is the new whole.
        now: Instead of the time, for tests.
    """
    now = time.time() if now is None else now
    found = _within(version, now)
    for source, count in deleted.items():
        if count:
            found.setdefault(source, []).append((now, count))
    kept = {source: times for source, times in found.items() if source not in allowed}
    before = (version.properties.get(DELETIONS_KEY) or "") if version else ""
    text = json.dumps(kept) if kept else ""
    return {DELETIONS_KEY: text} if text != before else {}


def _within(version: Version | None, now: float) -> Deletions:
    try:
        recorded = json.loads((version and version.properties.get(DELETIONS_KEY)) or "{}")
        pairs = {source: [(float(at), int(count)) for at, count in times] for source, times in recorded.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
    lately = {source: [pair for pair in times if pair[0] > now - WINDOW_SECONDS] for source, times in pairs.items()}
    return {source: times for source, times in lately.items() if times}
