"""The parameters of a Hugo site, from its configuration at the root of the tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kubeflow_corpus.sites.front_matter import parse_mapping

# Later files go over earlier ones, as in Hugo.
_SUFFIXES: Final = ("toml", "yaml", "yml", "json")
CONFIG_NAMES: Final = tuple(f"{name}.{suffix}" for suffix in _SUFFIXES for name in ("config", "hugo"))
CONFIG_FILES: Final = (
    *CONFIG_NAMES,
    *(f"config/_default/{name}" for name in CONFIG_NAMES),
    *(f"config/_default/params.{suffix}" for suffix in _SUFFIXES),
)
# Files that say which Hugo builds the site, most specific first.
VERSION_FILES: Final = ("netlify.toml", ".hugo-version", ".hvm", "package.json")
_PINS: Final = re.compile(
    r"""HUGO_VERSION\s*=\s*["']?v?(\d+\.\d+(?:\.\d+)?)|"hugo(?:-extended|-bin)?"\s*:\s*"[\^~>=v]*(\d+\.\d+(?:\.\d+)?)"""
    r"""|\Av?(\d+\.\d+(?:\.\d+)?)""",
)
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})")
_MAX_DEPTH: Final = 8
_MAX_VALUES: Final = 10_000


def read_params(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Reads ``[params]``, and ``permalinks`` beside them, of the given configuration files.

    Only what a ``param`` shortcode can print is kept: text, numbers, booleans, and mappings of them. A file that does
    not parse gives nothing: its pages are still worth reading.

    Args:
        files: Contents by path; names that are not in `CONFIG_FILES` are ignored.
    """
    params: dict[str, Any] = {}
    for path in CONFIG_FILES:
        if path in files:
            config = _parse(path, files[path])
            own = config if "/params." in path else _own(config)
            # A few aliases can stand for millions of values: the budget is for the whole file.
            params = _merged(params, _printable(own, _MAX_DEPTH, [_MAX_VALUES]))
    return params


def pinned_version(files: Mapping[str, bytes]) -> str:
    """Returns the version of Hugo that a site pins, empty where it pins none.

    Args:
        files: Contents by path below the folder of the site.
    """
    for path in VERSION_FILES:
        match = _PINS.search(files.get(path, b"").decode("utf-8", "replace"))
        if match is not None:
            return str(next(filter(None, match.groups())))
    return ""


def hugo_version(params: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the version in the parameters of a site; (0, 0) where none is known."""
    match = _VERSION.search(str(params.get("hugo_version") or ""))
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)


def _own(config: Mapping[str, Any]) -> dict[str, Any]:
    params, permalinks = config.get("params"), config.get("permalinks")
    found = dict(params) if isinstance(params, Mapping) else {}
    # Not a parameter for Hugo, but it decides the addresses of pages.
    return {"permalinks": permalinks, **found} if isinstance(permalinks, Mapping) else found


def _parse(path: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_mapping(data.decode("utf-8-sig"), path.rpartition(".")[2]) or {}
    except UnicodeDecodeError:
        return {}


def _printable(value: Mapping[Any, Any], depth: int, budget: list[int]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in value.items():
        budget[0] -= 1
        if budget[0] < 0:
            break
        if isinstance(item, Mapping):
            kept |= {str(key): _printable(item, depth - 1, budget)} if depth > 1 else {}
        elif isinstance(item, str | bool | int | float):
            kept[str(key)] = item
    return kept


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
