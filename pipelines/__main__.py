"""``python -m pipelines`` is another name of ``kubeflow-corpus``."""

import sys

from kubeflow_corpus.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
