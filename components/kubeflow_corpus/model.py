"""What the rows of a run are made with: the embedding model, the token budget and the versions of what cuts and stores.

A `Recipe` is made once, by the step `describe_model`, and every later step carries it whole: two rows may be in
one collection only where their recipes agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from kubeflow_corpus.collections import SCHEMA_VERSION
from kubeflow_corpus.errors import SettingsError

# Recorded in every collection, as `SCHEMA_VERSION` is: another number rebuilds it.
CHUNKER_VERSION: Final = "3"
# Below this a header and a sentence no longer fit into a row.
LEAST_TOKEN_BUDGET: Final = 64


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model made a vector. Vectors of two identities never meet.

    Attributes:
        model: Name such as ``sentence-transformers/all-MiniLM-L6-v2``.
        revision: Commit or digest of the weights; empty where a service does not say.
        dimension: Length of the vectors.
        max_tokens: Tokens that the model reads, special tokens included.
        dtype: Number format of the weights, for information; empty where unknown.
        query_prefix: Words before every question.
        document_prefix: Words before every text that is indexed.
        pooling: How token vectors become one, where a service says so; the length of a vector is always 1.
    """

    model: str
    revision: str
    dimension: int
    max_tokens: int
    # Recorded, not compared: a service that is restarted in float16 gives the same vectors to the fourth digit.
    dtype: str = field(default="", compare=False)
    query_prefix: str = ""
    document_prefix: str = ""
    pooling: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides whether two rows are comparable.

    Attributes:
        identity: The embedding model.
        token_budget: Tokens that an embedding text may have, special tokens included: `CHUNK_TOKENS`, or what the
            model reads.
        chunker_version: Version of the chunkers.
        schema_version: Version of the fields of a row.
    """

    identity: ModelIdentity
    token_budget: int
    chunker_version: str = CHUNKER_VERSION
    schema_version: str = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """Reads what `to_dict` wrote."""
        return cls(**{**data, "identity": ModelIdentity(**data["identity"])})

    def with_chunker(self, version: str) -> Recipe:
        """Returns the recipe of another version of the chunkers."""
        return replace(self, chunker_version=version)


def make_recipe(identity: ModelIdentity, chunk_tokens: int = 0) -> Recipe:
    """Returns the recipe of a run.

    Args:
        identity: The embedding model of the run.
        chunk_tokens: Tokens that a chunk may have (`CHUNK_TOKENS`); 0 is what the model reads.

    Raises:
        SettingsError: The budget is more than the model reads, or too little for a sentence.
    """
    if chunk_tokens and not LEAST_TOKEN_BUDGET <= chunk_tokens <= identity.max_tokens:
        raise SettingsError(
            f"CHUNK_TOKENS is {chunk_tokens}, and {identity.model} reads {identity.max_tokens} tokens",
            remedy=f"Set CHUNK_TOKENS to {LEAST_TOKEN_BUDGET} to {identity.max_tokens}, or unset it",
            setting="CHUNK_TOKENS",
        )
    return Recipe(identity, chunk_tokens or identity.max_tokens)
