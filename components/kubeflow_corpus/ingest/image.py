"""The image that a step runs in."""

from __future__ import annotations

from typing import Final

# A stand-in that no registry serves: `kubeflow-corpus compile` puts the image it is given in its place, and the
# local runner starts processes instead of containers. The runner warns of images without "python" in their name.
STEP_IMAGE: Final = "kubeflow-corpus.invalid/python:unset"
