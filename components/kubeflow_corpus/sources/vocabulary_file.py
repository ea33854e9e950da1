"""Reads a vocabulary from YAML: see the comments of the packaged ``vocabulary.yaml`` for the keys.

A file that begins with ``extends: default`` adds to the packaged vocabulary: lists are appended, mappings and products
are merged by key and name, and ``project`` and ``about`` are replaced. Without it a file stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kubeflow_corpus.sources.yaml_file import YamlFile, did_you_mean, line_of
from kubeflow_corpus.vocabulary import (
    COMPILED,
    MAPPINGS,
    MAX_BYTES,
    PATTERNS,
    PRODUCT_PATTERNS,
    WORDS,
    Product,
    Vocabulary,
    default_vocabulary,
    pattern_problem,
)

PACKAGED: Final = Path(__file__).with_name("vocabulary.yaml")
_KEYS: Final = ("extends", "project", "about", "example_kind", "products", *PATTERNS, *WORDS, *MAPPINGS)
_DEFAULT: Final = "default"
# What a filter makes of the name that a person gives: small letters and hyphens.
_AREA: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_MDX_FORMS: Final = ("nothing", "label", "text", "field")


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Reads and checks a vocabulary.

    Args:
        path: The YAML file.

    Raises:
        CatalogueError: The file cannot be read or says something wrong; it names file and line.
    """
    return _VocabularyFile(Path(path)).vocabulary()


class _VocabularyFile(YamlFile):
    """Reads one vocabulary."""

    def vocabulary(self) -> Vocabulary:
        root = self.mapping(self.load(), "the vocabulary", 1)
        self.known_keys(root, _KEYS, "the vocabulary")
        base = default_vocabulary() if self._extends(root) else Vocabulary(project="")
        if "project" in root or not base.project:
            if "project" not in root:
                self.fail(1, "it has no key 'project'", "Add 'project:' with the name of the project")
            project = self.text(root, "project")
            base = replace(base, project=project, about=project, example_kind="")
        texts: dict[str, Any] = {name: self.text(root, name) for name in ("about", "example_kind") if name in root}
        base = replace(base, **texts)
        found = replace(base, products=self._products(root, base))
        lists: dict[str, Any] = {
            name: (*getattr(base, name), *self._list(root, name)) for name in (*PATTERNS, *WORDS) if name in root
        }
        found = replace(found, **lists)
        pairs: dict[str, Any] = {name: self._pairs(root, name, found) for name in MAPPINGS if name in root}
        found = replace(found, **pairs)
        if len(found.to_json().encode()) > MAX_BYTES:
            self.fail(0, f"it holds more than {MAX_BYTES} bytes", "Shorten its lists: every reader fetches it")
        return found

    def _extends(self, root: Mapping[str, Any]) -> bool:
        return "extends" in root and self.choice(root, "extends", (_DEFAULT,)) == _DEFAULT

    def _products(self, root: Mapping[str, Any], base: Vocabulary) -> tuple[Product, ...]:
        merged = {product.name: product for product in base.products}
        rows = self.sequence(root["products"], "products", line_of(root, "products")) if "products" in root else ()
        seen: set[str] = set()
        for index, row in enumerate(rows):
            line = line_of(rows, index)
            mapping = self.mapping(row, "a product", line)
            self.known_keys(mapping, ("name", *PRODUCT_PATTERNS), "a product")
            self.require(mapping, "name", line)
            name = self.text(mapping, "name")
            if not _AREA.fullmatch(name):
                remedy = "Use at most 63 lower-case letters, digits and inner hyphens"
                self.fail(line_of(mapping, "name"), f"{name!r} cannot be the name of a product", remedy)
            if name in seen:
                self.fail(line_of(mapping, "name"), f"there is already a product {name!r}", "Name every product once")
            seen.add(name)
            before = merged.get(name, Product(name))
            merged[name] = Product(
                name,
                asked=(*before.asked, *self._question_patterns(mapping)),
                listed=(*before.listed, *self._list(mapping, "listed")),
            )
        return tuple(merged.values())

    def _question_patterns(self, mapping: Mapping[str, Any]) -> tuple[str, ...]:
        patterns = self._list(mapping, "asked")
        for index, pattern in enumerate(patterns):
            if re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)):
                line = line_of(mapping["asked"], index)
                self.fail(line, f"the pattern {pattern!r} has capitals", "Write small letters: questions are read so")
        return patterns

    def _list(self, mapping: Mapping[str, Any], key: str) -> tuple[str, ...]:
        if key not in mapping:
            return ()
        items = self.sequence(mapping[key], key, line_of(mapping, key))
        found: list[str] = []
        for index, item in enumerate(items):
            line = line_of(items, index)
            text = self.plain_text(item, f"an entry of {key}", line)
            if key not in WORDS and (problem := pattern_problem(text)):
                self.fail(line, f"the pattern {text!r} is refused: {problem}", "Write (?:...) for a group; quote it")
            found.append(text)
        return tuple(found)

    def _pairs(self, root: Mapping[str, Any], key: str, found: Vocabulary) -> tuple[tuple[str, str], ...]:
        mapping = self.mapping(root[key], key, line_of(root, key))
        pairs = dict(getattr(found, key))
        for name, value in mapping.items():
            line = line_of(mapping, name)
            text = value if key == "shortcodes" and value == "" else self.plain_text(value, f"{key} {name!r}", line)
            known = {"labels": found.areas, "mdx_components": _MDX_FORMS}.get(key)
            if known is not None and text not in known:
                what = "product area" if key == "labels" else "form of a component"
                self.fail(line, f"there is no {what} {text!r}", did_you_mean(text, known, "Known"))
            pairs[str(name)] = str(text)
        return tuple(pairs.items())


def main() -> None:
    """Compiles the packaged vocabulary (``make vocabulary``): readers load it without a YAML parser."""
    COMPILED.write_text(load_vocabulary(PACKAGED).to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
