"""Holds the manifests, and what `schemas.py` states of custom kinds, to the CRDs that operators publish.

::

    python -m tests.manifests.crds FILE_OR_FOLDER...

The arguments are CRDs as YAML, such as ``kubernetes/customresourcedefinitions.gen.yaml`` of istio/api. Run it when a
supported release of an operator changes; nothing of it is part of the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
from ruamel.yaml import YAML

from tests.manifests.rendering import built_in, everything, label
from tests.manifests.schemas import SPECS, Schema

Kind = tuple[str, str]


def published(paths: Sequence[Path]) -> dict[Kind, Schema]:
    """Returns the schema of the spec of each kind in some files."""
    files = [file for path in paths for file in (sorted(path.rglob("*.yaml")) if path.is_dir() else [path])]
    found = {}
    for file in files:
        for item in YAML(typ="safe", pure=True).load_all(file.read_text(encoding="utf-8")):
            if isinstance(item, dict) and item.get("kind") == "CustomResourceDefinition":
                spec = item["spec"]
                for version in spec["versions"]:
                    properties = version["schema"]["openAPIV3Schema"]["properties"]
                    kind = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    found[kind] = strict(properties.get("spec", {}))
    return found


def strict(schema: Any) -> Any:
    """Returns a schema that refuses unknown fields, as a server with strict validation does."""
    if isinstance(schema, list):
        return [strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if result.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    if "properties" in result and not result.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


def differences(own: Schema, theirs: Schema, path: str) -> Iterator[str]:
    """Yields where a stated schema takes what the published one refuses."""
    if theirs.get("x-kubernetes-preserve-unknown-fields") and "properties" not in theirs:
        return
    for name, value in own.get("properties", {}).items():
        if name not in theirs.get("properties", {}):
            yield f"{path}.{name} is not known"
        else:
            yield from differences(value, theirs["properties"][name], f"{path}.{name}")
    if "properties" in own:
        for name in set(theirs.get("required", ())) - set(own["required"]):
            yield f"{path}.{name} is required"
    if own.get("type") == "array" and "items" in own:
        yield from differences(own["items"], theirs.get("items", {}), f"{path}[]")
    if "enum" in theirs and not set(own.get("enum", ["anything"])) <= set(theirs["enum"]):
        yield f"{path} is one of {theirs['enum']}"


def main(*paths: str) -> int:
    kinds = published([Path(path) for path in paths])
    said = []
    for kind, own in SPECS.items():
        said += differences(own, kinds[kind], kind[1]) if kind in kinds else [f"{kind} was not given"]
    custom = [(name, item) for name, item in everything() if not built_in(item)]
    for name, item in custom:
        schema = kinds.get((item["apiVersion"], item["kind"]), {})
        for error in jsonschema.Draft7Validator(schema).iter_errors(item["spec"]):
            said.append(f"{name} {label(item)}: {error.message} at {list(error.path)}")
    print("\n".join([*said, f"{len(custom)} objects of {len(SPECS)} kinds, {len(said)} differences"]))
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
