"""KFP faces of the steps that embed.

KFP reads the signatures at run time: no postponed annotations, no ``X | None``; an absent text is "".
"""

from kfp import dsl
from kfp.dsl import Dataset, Input, Output

from kubeflow_corpus.ingest.image import STEP_IMAGE


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def describe_model(collection: str, begun: Input[Dataset], model: Output[Dataset]) -> None:
    """Asks which model embeds: the service at EMBEDDINGS_URL, or the embedded model where that is unset.

    Args:
        collection: docs, issues or code.
        begun: How reading the catalogue went.
        model: Name, revision, dimension and token limit of the model, and how it went.
    """
    from kubeflow_corpus.ingest import embedding as steps

    model.metadata.update(steps.describe_model(collection, begun.path, model.path))


@dsl.component(base_image=STEP_IMAGE, install_kfp_package=False)
def embed(collection: str, shard: str, planned: Input[Dataset], vectors: Output[Dataset]) -> None:
    """Embeds the texts of one shard that have no vector yet.

    Args:
        collection: docs, issues or code.
        shard: Name of the shard; empty where there is nothing to embed.
        planned: The plan, with its shards.
        vectors: The vectors, and how it went.
    """
    from kubeflow_corpus.ingest.embedding import embed_shard

    vectors.metadata.update(embed_shard(collection, shard, planned.path, vectors.path))
