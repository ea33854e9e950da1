"""What a model wants to read before a text: many were trained to tell questions and documents apart by a few words.

Without them such a model still answers, and finds less: nothing fails. So the words for the models that people serve
are here, taken from their model cards; the settings replace them. They are part of a model's identity, because vectors
made with other words do not belong together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from kubeflow_corpus.model import ModelIdentity
from kubeflow_corpus.settings import NO_PREFIX, Settings
from kubeflow_corpus.tokens import ApproximateCounter

_SEARCH: Final = "Represent this sentence for searching relevant passages: "
_TASK: Final = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True)
class Prompts:
    """Words before a text.

    Attributes:
        query: Before a question.
        document: Before a text that is indexed.
    """

    query: str = ""
    document: str = ""


# The first pattern that matches the name of a model counts; a model that none matches wants nothing.
PRESETS: Final[tuple[tuple[str, Prompts], ...]] = (
    (r"(?:^|/)bge-m3", Prompts()),
    (r"(?:^|/)bge-.*-zh", Prompts("为这个句子生成表示以用于检索相关文章："),),
    (r"(?:^|/)bge-(?:small|base|large)-en", Prompts(_SEARCH)),
    (r"(?:^|/)multilingual-e5-.*-instruct", Prompts(f"Instruct: {_TASK}\nQuery: ")),
    (r"(?:^|/)e5-mistral", Prompts(f"Instruct: {_TASK}\nQuery: ")),
    (r"(?:^|/)(?:multilingual-)?e5-(?:small|base|large)", Prompts("query: ", "passage: ")),
    (r"(?:^|/)nomic-embed-text", Prompts("search_query: ", "search_document: ")),
    (r"(?:^|/)gte-qwen", Prompts(f"Instruct: {_TASK}\nQuery: ")),
    (r"(?:^|/)qwen3-embedding", Prompts(f"Instruct: {_TASK}\nQuery:")),
    (r"(?:^|/)snowflake-arctic-embed-.*-v2", Prompts("query: ")),
    (r"(?:^|/)snowflake-arctic-embed", Prompts(_SEARCH)),
    (r"(?:^|/)mxbai-embed-large", Prompts(_SEARCH)),
    (r"(?:^|/)embeddinggemma", Prompts("task: search result | query: ", "title: none | text: ")),
)  # fmt: skip


def preset(model: str) -> Prompts:
    """Returns what a model wants, by its name as a service reports it (a hub name or a path)."""
    name = model.lower()
    return next((prompts for pattern, prompts in PRESETS if re.search(pattern, name)), Prompts())


def prompts_for(model: str, settings: Settings) -> Prompts:
    """Returns the words for a model: those of the settings, else those of its preset."""
    known = preset(model)
    return Prompts(
        _chosen(settings.embedding_query_prefix, known.query),
        _chosen(settings.embedding_document_prefix, known.document),
    )


def _chosen(setting: str, known: str) -> str:
    if setting.strip().lower() == NO_PREFIX:
        return ""
    return setting or known


def with_prompts(identity: ModelIdentity, prompts: Prompts) -> ModelIdentity:
    """Returns the identity of a model that reads these words before every text."""
    # What a document's words take is not left for its text.
    left = identity.max_tokens - ApproximateCounter().count(prompts.document)
    return replace(identity, max_tokens=left, query_prefix=prompts.query, document_prefix=prompts.document)
