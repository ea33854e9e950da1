"""The recipe of a run, as it travels from step to step."""

from __future__ import annotations

import json
from typing import Final

from kubeflow_corpus.ingest.outcomes import Outcome
from kubeflow_corpus.model import Recipe

RECIPE_FACT: Final = "recipe"


def recipe_facts(recipe: Recipe) -> dict[str, str]:
    """Returns a recipe as a fact of an outcome; `recipe_of` reads it back."""
    return {RECIPE_FACT: json.dumps(recipe.to_dict(), sort_keys=True)}


def recipe_of(outcome: Outcome) -> Recipe:
    """Reads what `recipe_facts` wrote."""
    return Recipe.from_dict(json.loads(outcome.facts[RECIPE_FACT]))
