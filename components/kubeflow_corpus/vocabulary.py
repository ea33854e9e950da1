"""The words of a project: its products, and how people, labels and pages write them.

Words are data, so that the package serves any project: ``sources/vocabulary.yaml`` holds Kubeflow's, a catalogue may
name a file of its own, and a collection records the words that its rows were cut with, so that questions are read with
the same ones. `default_vocabulary` reads a compiled copy of the packaged file: searching needs no YAML parser.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

LOGGER: Final = logging.getLogger("kubeflow_corpus")

COMPILED: Final = Path(__file__).with_name("vocabulary.json")
# Property of a collection that holds its vocabulary; empty is the packaged one.
VOCABULARY_KEY: Final = "vocabulary"
# A collection records its vocabulary in a property, which every reader fetches.
MAX_BYTES: Final = 65_536
# Matches nothing: what an alternation of no patterns means.
NEVER: Final = "(?!)"

# The lists of a vocabulary by what their entries are; see `Vocabulary` and the comments of the packaged file.
PATTERNS: Final = (
    *("latest", "concepts", "releases", "legacy"),
    *("heading_defines", "heading_motivates", "heading_installs", "heading_begins"),
    *("own_software", "foreign_software", "version_questions", "counter_questions", "boilerplate"),
)
WORDS: Final = ("not_identifiers", "bots", "version_folders", "own_crd_fields")
MAPPINGS: Final = ("labels", "mdx_components", "shortcodes", "crd_owners")
PRODUCT_PATTERNS: Final = ("asked", "listed")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        name: Its value of `product_area`.
        asked: Patterns of how a question names it.
        listed: Patterns of how the component table of a release page names it.
    """

    name: str
    asked: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every word of a project that the package knows. Patterns are regular expressions without capturing groups.

    Attributes:
        project: Its name.
        about: What its documentation is about.
        example_kind: A Kubernetes kind that people ask for, as an example.
        products: The closed list of `product_area`.
        latest: Patterns of short names: "latest X" asks for a release.
        concepts: Patterns of names: "what is X" asks for an explanation.
        releases: Patterns of what stands for the releases of the project.
        legacy: Patterns of a question about a superseded generation.
        heading_defines: Patterns of how a heading begins below which a definition stands; where it is empty, as where
            one of the next three is, that of the packaged vocabulary holds (`heading_patterns`).
        heading_motivates: Patterns of how a heading begins that says what a thing is good for.
        heading_installs: Patterns in headings and titles about installing.
        heading_begins: Patterns in headings, titles and paths about first steps.
        not_identifiers: Names that only look like identifiers.
        labels: Label of an issue and the product that it names.
        own_software: Patterns of names whose version is a version of the project.
        foreign_software: Patterns of names whose version is not.
        version_questions: Patterns of names whose version an issue template asks for.
        counter_questions: Patterns: "which X?" asks back.
        bots: Accounts that are programs.
        boilerplate: Patterns of whole lines that an issue template adds.
        version_folders: What stands before the version in the name of a folder.
        mdx_components: MDX component and what is shown of it (see `chunking.docs.mdx`).
        shortcodes: Hugo shortcode and the text that it shows.
        crd_owners: API group, or one of its kinds, and the repository that owns it.
        own_crd_fields: Fields that the project adds to types of Kubernetes.
        digest: Identifies the content.
    """

    project: str
    about: str = ""
    example_kind: str = ""
    products: tuple[Product, ...] = ()
    latest: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    legacy: tuple[str, ...] = ()
    heading_defines: tuple[str, ...] = ()
    heading_motivates: tuple[str, ...] = ()
    heading_installs: tuple[str, ...] = ()
    heading_begins: tuple[str, ...] = ()
    not_identifiers: tuple[str, ...] = ()
    labels: Pairs = ()
    own_software: tuple[str, ...] = ()
    foreign_software: tuple[str, ...] = ()
    version_questions: tuple[str, ...] = ()
    counter_questions: tuple[str, ...] = ()
    bots: tuple[str, ...] = ()
    boilerplate: tuple[str, ...] = ()
    version_folders: tuple[str, ...] = ()
    mdx_components: Pairs = ()
    shortcodes: Pairs = ()
    crd_owners: Pairs = ()
    own_crd_fields: tuple[str, ...] = ()
    digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.to_json().encode()).hexdigest())

    def __hash__(self) -> int:
        # Rules are compiled once per vocabulary and looked up by it, once per question: hundreds of words take longer.
        return hash(self.digest)

    @property
    def areas(self) -> tuple[str, ...]:
        """The names of the products."""
        return tuple(product.name for product in self.products)

    def heading_patterns(self, name: str) -> tuple[str, ...]:
        """Returns the patterns of ``heading_defines`` and the like: most sites are in English and give none."""
        own: tuple[str, ...] = getattr(self, name)
        return own or getattr(default_vocabulary(), name)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form, without what is empty."""
        data: dict[str, Any] = {}
        for item in fields(self):
            value: Any = getattr(self, item.name) if item.init else None
            if item.name == "products":
                value = [_product_to_dict(product) for product in self.products]
            elif item.name in MAPPINGS:
                value = dict(value)
            if value:
                data[item.name] = value
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Vocabulary:
        """Makes a vocabulary of its JSON form."""
        given = {name: _frozen(name, value) for name, value in data.items()}
        return cls(**given)

    def to_json(self) -> str:
        """Returns the JSON form as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    def to_property(self) -> str:
        """Returns what a collection records: the JSON form, or nothing for the packaged vocabulary."""
        return "" if self == default_vocabulary() else self.to_json()


def _product_to_dict(product: Product) -> dict[str, Any]:
    given = {name: list(getattr(product, name)) for name in PRODUCT_PATTERNS if getattr(product, name)}
    return {"name": product.name, **given}


def _product(row: Mapping[str, Any]) -> Product:
    return Product(str(row["name"]), *(tuple(map(str, row.get(name, ()))) for name in PRODUCT_PATTERNS))


def _frozen(name: str, value: Any) -> Any:
    if name == "products":
        return tuple(map(_product, value))
    if isinstance(value, Mapping):
        return tuple((str(key), str(item)) for key, item in value.items())
    return str(value) if isinstance(value, str) else tuple(str(item) for item in value)


@cache
def default_vocabulary() -> Vocabulary:
    """Returns the packaged vocabulary."""
    return Vocabulary.from_dict(json.loads(COMPILED.read_text(encoding="utf-8")))


@lru_cache(maxsize=16)
def recorded_vocabulary(text: str) -> Vocabulary:
    """Returns the vocabulary that a collection records.

    Args:
        text: What `Vocabulary.to_property` returned; empty is the packaged vocabulary.
    """
    if not text:
        return default_vocabulary()
    try:
        found = Vocabulary.from_dict(json.loads(text))
        for pattern in every_pattern(found):
            if problem := pattern_problem(pattern):
                raise ValueError(f"{pattern!r}: {problem}")
    except (ValueError, TypeError, AttributeError) as error:
        # A newer version of this package may have written it. A search without these words still answers.
        LOGGER.warning("the recorded vocabulary cannot be read, the packaged one is used: %s", error)
        return default_vocabulary()
    return found


def every_pattern(vocabulary: Vocabulary) -> Iterable[str]:
    """Yields every pattern of a vocabulary."""
    for name in PATTERNS:
        yield from getattr(vocabulary, name)
    for product in vocabulary.products:
        yield from (*product.asked, *product.listed)


def pattern_problem(pattern: str) -> str:
    """Returns what is wrong with a pattern; empty where it can be joined with others."""
    try:
        compiled = re.compile(f"(?:{NEVER}|{pattern})")
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is not a regular expression ({error})"
    if compiled.groups:
        return "it has a capturing group"
    return "it matches the empty text" if compiled.fullmatch("") else ""


def either(patterns: Iterable[str]) -> str:
    """Returns one pattern that matches where any of several does; nothing if there are none."""
    return f"(?:{'|'.join(patterns) or NEVER})"
