"""``kubeflow-corpus issuer serve|rotate|check``: issues anonymous sessions, rotates their keys, and asks for one."""

from __future__ import annotations

import argparse
import time
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments; every other setting is an environment variable (``ISSUER_...``)."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    serve = actions.add_parser("serve", help="answer POST /session and publish the key set")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (default 8001)")
    rotate = actions.add_parser(
        "rotate", help="make a new key when it is time, and drop the keys that no session needs"
    )
    where = rotate.add_mutually_exclusive_group(required=True)
    where.add_argument("--folder", type=Path, help="folder of the keys")
    where.add_argument("--secret", help="name of the Secret, in the namespace of this pod")
    rotate.add_argument(
        "--revoke", action="store_true", help="after a leak: replace every key at once, which ends all sessions"
    )
    check = actions.add_parser(
        "check", help="ask an issuer for a session, and verify it with the keys that it publishes"
    )
    check.add_argument("url", help="address of the issuer")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    actions = {"serve": _serve, "rotate": _rotate, "check": _check}
    return actions[args.action](args)


def _serve(args: argparse.Namespace) -> int:
    import uvicorn

    from kubeflow_corpus.issuer.app import Keyring, build_app
    from kubeflow_corpus.issuer.settings import IssuerSettings
    from kubeflow_corpus.issuer.stores import FolderStore

    settings = IssuerSettings.from_env(host=args.host, port=args.port)
    keyring = Keyring(FolderStore(Path(settings.keys_folder)))
    uvicorn.run(
        build_app(settings, keyring),
        host=settings.host,
        port=settings.port,
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )
    return 0


def _rotate(args: argparse.Namespace) -> int:
    from collections.abc import Mapping

    from kubeflow_corpus.issuer.keys import SUFFIX, rotated
    from kubeflow_corpus.issuer.settings import IssuerSettings
    from kubeflow_corpus.issuer.stores import FolderStore, KeyStore, SecretStore

    # A rotation does not need to know the address; everything else must fit together as it does for the service.
    settings = IssuerSettings.from_env(url="https://rotation.invalid")
    store: KeyStore = FolderStore(args.folder) if args.folder else SecretStore.in_cluster(args.secret)
    now = time.time()

    def change(stored: Mapping[str, bytes]) -> dict[str, bytes]:
        return rotated({} if args.revoke else stored, now, settings)

    added, removed = store.change(change)
    for verb, names in (("made", added), ("dropped", removed)):
        for name in sorted(names):
            print(f"{verb} {name.removesuffix(SUFFIX)}")
    if not added and not removed:
        print("nothing to do")
    return 0


def _check(args: argparse.Namespace) -> int:
    from kubeflow_corpus.issuer.check import check_issuer

    print(check_issuer(args.url))
    return 0
