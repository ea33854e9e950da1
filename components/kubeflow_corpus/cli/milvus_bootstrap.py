"""``kubeflow-corpus milvus-bootstrap``: creates the database, roles and users of a Milvus server."""

from __future__ import annotations

import argparse

from kubeflow_corpus.errors import SettingsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares nothing: everything is secret or shared with others, and comes from the environment."""
    parser.epilog = (
        "Reads MILVUS_URI, MILVUS_DATABASE, MILVUS_ROOT_PASSWORD, MILVUS_READER_USER, MILVUS_READER_PASSWORD, "
        "MILVUS_WRITER_USER and MILVUS_WRITER_PASSWORD. Running it twice changes nothing."
    )


def run(args: argparse.Namespace) -> int:
    """Prints one line per change."""
    from kubeflow_corpus.milvus import disconnect
    from kubeflow_corpus.operations.milvus_access import MilvusAccess, ensure_access, ensure_passwords, open_as_root
    from kubeflow_corpus.settings import Settings

    settings = Settings.from_env()
    uri = settings.require_milvus_uri()
    if settings.embedded_milvus:
        raise SettingsError("An embedded database has no users", remedy="Set MILVUS_URI to the URL of a server")
    access = MilvusAccess.from_env()
    client, opened, replaced = open_as_root(uri, access)
    try:
        lines = [*(["user root: got its new password"] if replaced else []), *ensure_access(client, access)]
        lines += ensure_passwords(uri, client, access)
    finally:
        disconnect(client, opened)
    print("\n".join(lines) or "nothing to do")
    return 0
