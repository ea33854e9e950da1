"""Every number that shapes a ranking, in one place.

The values were chosen by measurement over the development questions and a second set of questions that was written
before any tuning; each differs from its neighbours by less than the noise of those sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kubeflow_corpus.collections import CODE, DOCS, ISSUES

IntentName = Literal[
    "comparison", "release_date", "temporal", "exact", "definition", "installation", "conceptual", "general"
]
Mode = Literal["hybrid", "dense", "bm25"]
Fusion = Literal["weighted", "rrf"]

MODES: Final = ("hybrid", "dense", "bm25")
FUSIONS: Final = ("weighted", "rrf")


@dataclass(frozen=True, slots=True)
class Policy:
    """How questions of one intent are searched.

    Attributes:
        mode: Which lists are asked for.
        pool: Rows of each list.
        dense_weight: Share of the dense list in a weighted fusion; the BM25 list has the rest.
        rrf_k: Constant of reciprocal rank fusion.
    """

    mode: Mode
    pool: int
    dense_weight: float
    rrf_k: int = 10


@dataclass(frozen=True, slots=True)
class Preferences:
    """What is added to a fused score, which lies between 0 and 1.

    Attributes:
        area: A unit of a product that the question names.
        version: A unit of a version that the question names.
        side_version: The same on one side of a comparison of versions; a unit without a version belongs to no side.
        other_version: A unit of other versions than those that the question names.
        legacy: A page of a superseded generation (Pipelines v1), unless the question names it.
        release_stub: A unit that only says when something was released, unless the question asks for that.
        release: A dated unit, where the question asks for dates.
        resolved: A thread that holds its resolution; a closed one without gets a little, a duplicate loses as much
            (`kubeflow_corpus.symptoms.THREAD_STANDING`).
        kind: A Kubernetes object of the kind, or a symbol of the name, that the question writes out.
        heading: A section whose heading has the words of the question and no others; less for fewer of them.
        heading_asked: The same where the heading is the question: every word, or its question word too.
        one_line: A section of one line without code: it introduces others.
        reference: A section of an API reference, unless the question names a key.
        definition: A section with a heading such as "What is X", where the question asks what X is; one such as "Why X"
            or "Use cases", where it asks why.
        opening: A section that begins with "X is a ...", where the question asks what X is.
        installation: A section about installing what the question wants to install, or about first steps with it.
        introduction: The first section of a page whose title is what the question asks about.
    """

    area: float = 0.10
    version: float = 0.15
    side_version: float = 0.45
    other_version: float = -0.04
    legacy: float = -0.35
    release_stub: float = -0.25
    release: float = 0.10
    resolved: float = 0.04
    kind: float = 0.08
    heading: float = 0.35
    heading_asked: float = 0.35
    one_line: float = -0.25
    reference: float = -0.15
    definition: float = 0.30
    opening: float = 0.20
    installation: float = 0.15
    introduction: float = 0.35


@dataclass(frozen=True, slots=True)
class Threshold:
    """When a unit does not answer the question: both of its figures are below these.

    Attributes:
        cosine: Cosine of question and text, the same scale in every collection of one model.
        coverage: Share of the question's content words (by their rarity in the pool) that the text holds.
    """

    cosine: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """All settings of a search.

    Attributes:
        fusion: How two lists become one.
        policies: By intent.
        preferences: Score bonuses.
        thresholds: By collection alias.
        near_duplicate: Jaccard overlap of word triples from which two texts are one.
        candidates: Units whose text is fetched, as a multiple of the limit, for duplicates and excluded ones.
        unit_tokens: Tokens of evidence that one unit gets before every other unit had its share.
        rerank_pool: Units that the second stage sees.
        definition_pool: Units whose texts are looked at for a definition.
    """

    fusion: Fusion = "weighted"
    policies: Mapping[IntentName, Policy] = field(
        default_factory=lambda: {
            "comparison": Policy("hybrid", pool=150, dense_weight=0.6),
            "release_date": Policy("bm25", pool=100, dense_weight=0.3),
            "temporal": Policy("bm25", pool=300, dense_weight=0.3),
            "exact": Policy("bm25", pool=100, dense_weight=0.3),
            "definition": Policy("hybrid", pool=200, dense_weight=0.6),
            "installation": Policy("hybrid", pool=200, dense_weight=0.6),
            "conceptual": Policy("hybrid", pool=200, dense_weight=0.6),
            "general": Policy("hybrid", pool=200, dense_weight=0.6),
        }
    )
    preferences: Preferences = Preferences()
    thresholds: Mapping[str, Threshold] = field(
        default_factory=lambda: {
            DOCS.alias: Threshold(cosine=0.22, coverage=0.34),
            ISSUES.alias: Threshold(cosine=0.22, coverage=0.34),
            CODE.alias: Threshold(cosine=0.18, coverage=0.34),
        }
    )
    near_duplicate: float = 0.85
    candidates: int = 3
    unit_tokens: int = 600
    rerank_pool: int = 30
    definition_pool: int = 30


DEFAULT_TUNING: Final = Tuning()

DEFAULT_LIMIT: Final = 5
DEFAULT_TOKEN_BUDGET: Final = 3_000
DEFAULT_TIMEOUT_SECONDS: Final = 2.0
MAX_TIMEOUT_SECONDS: Final = 600.0
# Least patience of what is not a search: reading properties and values, loading a model.
SETUP_TIMEOUT_SECONDS: Final = 30.0
# Of a longer question only its start and its end are read: it is a pasted log, and they say what it is about.
READ_QUERY_CHARACTERS: Final = 4_000


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one kind of caller may ask for.

    Attributes:
        max_limit: Most hits.
        min_token_budget: Least tokens of evidence.
        max_token_budget: Most tokens of evidence.
        unit_token_budget: Tokens of a whole unit where no other number is given.
        max_query_characters: Longest question that is accepted; None accepts every length.
    """

    max_limit: int
    min_token_budget: int
    max_token_budget: int
    unit_token_budget: int
    max_query_characters: int | None


# What somebody may say of an answer (`report_answer`).
MAX_NOTE_CHARACTERS: Final = 1_000

# A program pages through results and knows what it can hold; it may cut evidence down to a line.
PROGRAM_LIMITS: Final = RequestLimits(
    max_limit=100,
    min_token_budget=50,
    max_token_budget=100_000,
    unit_token_budget=8_000,
    max_query_characters=None,
)
# An agent pays for every token that it reads: more would crowd its question out of its context, and less than a few
# sentences answers nothing. A question beyond this is a pasted document, which it should be told rather than searched.
AGENT_LIMITS: Final = RequestLimits(
    max_limit=25,
    min_token_budget=200,
    max_token_budget=20_000,
    unit_token_budget=DEFAULT_TOKEN_BUDGET,
    max_query_characters=10_000,
)
# Shares of what is left of the deadline.
EMBEDDING_SHARE: Final = 0.6
RERANK_SHARE: Final = 0.5
