"""Imports every module of the project, and what its steps start: fails where the environment lacks something."""

import importlib
import pkgutil

# What is imported inside functions, or by the command line that KFP gives to a step.
LATER = (
    *("kfp.dsl.executor_main", "kfp.local", "pymilvus", "pyarrow.parquet", "zstandard", "tokenizers", "github"),
    *("tree_sitter_bash", "tree_sitter_containerfile", "tree_sitter_go", "tree_sitter_javascript"),
    *("tree_sitter_python", "tree_sitter_typescript", "jinja2", "uvicorn.protocols.http.h11_impl"),
    *("opentelemetry.sdk.trace.export", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
)


def main() -> None:
    """Imports them."""
    for top in ("kubeflow_corpus", "pipelines"):
        for found in pkgutil.walk_packages(importlib.import_module(top).__path__, f"{top}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name in LATER:
        importlib.import_module(name)
    # It is made of a file inside a package, which no import would miss.
    importlib.import_module("kubeflow_corpus.tokens").load_tokenizer()


if __name__ == "__main__":
    main()
