"""The embedding model of a run, as it travels from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeflow_corpus.embedding.embedder import ModelIdentity
from kubeflow_corpus.ingest.outcomes import Outcome

MODEL_FACTS: Final = ("model", "model_revision", "dimension", "max_tokens")


def identity_facts(identity: ModelIdentity) -> dict[str, str]:
    """Returns a model's identity as the facts of an outcome; `identity_of` reads it back."""
    return {
        "model": identity.model,
        "model_revision": identity.revision,
        "dimension": str(identity.dimension),
        "max_tokens": str(identity.max_tokens),
    }


def model_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Returns the facts about the model among others."""
    return {name: facts[name] for name in MODEL_FACTS}


def identity_of(outcome: Outcome) -> ModelIdentity:
    """Reads what `identity_facts` wrote."""
    facts = outcome.facts
    return ModelIdentity(facts["model"], facts["model_revision"], int(facts["dimension"]), int(facts["max_tokens"]))
