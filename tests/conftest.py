"""What all tests share: the order in which they start."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts first what waits for minutes, so that the other worker has something to do meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("lengthy") is None)
