"""The edge chart, rendered as Helm renders it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "manifests" / "edge"
NAMESPACE = "corpus-edge"
Objects = list[dict[str, Any]]


def helm() -> Any:
    return pytest.importorskip("helm_python.chart", reason="helm-python-sdk is not installed: no Helm to render with")


def example_values() -> dict[str, Any]:
    return yaml.safe_load((CHART / "ci" / "example-values.yaml").read_text(encoding="utf-8"))


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(dict(base))
    for name, value in changes.items():
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result


@lru_cache(maxsize=1)
def chart() -> Any:
    return helm().Chart.load(str(CHART))


def render(changes: Mapping[str, Any] | None = None) -> Objects:
    values = merged(example_values(), changes or {})
    files = chart().render(values, name="edge", namespace=NAMESPACE)
    objects = [
        doc
        for name, text in sorted(files.items())
        if not name.endswith("NOTES.txt")
        for doc in yaml.safe_load_all(text)
        if doc
    ]
    for item in objects:
        # Helm leaves it to the installation.
        item["metadata"].setdefault("namespace", NAMESPACE)
    return objects


def of_kind(objects: Objects, kind: str, name: str = "") -> Objects:
    return [item for item in objects if item["kind"] == kind and name in ("", item["metadata"]["name"])]
