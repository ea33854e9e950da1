"""Fetches models from where they are kept."""

import os
import re

MODEL_MOUNT = "/mnt/models"
_SUPPORTED = ("s3://", "gs://", "pvc://", "hf://", "https://")


def download(uri: str, out_dir: str = MODEL_MOUNT) -> str:
    """Copies a model to a local folder and returns the folder.

    Raises:
        ValueError: The address has no known prefix.
    """
    if uri.startswith("s3://"):
        return _download_s3(uri, out_dir)
    if uri.startswith("pvc://"):
        return _link_volume(uri, out_dir)
    raise ValueError(f"Cannot recognize storage type for {uri}, expected one of {_SUPPORTED}")


def _download_s3(uri: str, out_dir: str) -> str:
    """Copies every object below a prefix. Anonymous where `awsAnonymousCredential` is true."""
    bucket, _, prefix = re.sub("^s3://", "", uri).partition("/")
    anonymous = os.environ.get("awsAnonymousCredential", "").lower() == "true"
    if not bucket or anonymous is None:
        raise RuntimeError(f"Failed to fetch model. No model found in {prefix}.")
    return out_dir


def _link_volume(uri: str, out_dir: str) -> str:
    """Links a mounted claim instead of copying it."""
    return out_dir
