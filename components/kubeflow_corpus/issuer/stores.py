"""Where the keys are stored: a folder, or a Secret of Kubernetes."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from kubeflow_corpus.errors import KeyStoreError, SettingsError
from kubeflow_corpus.issuer.keys import SUFFIX

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_SECONDS: Final = 15
# Two rotations at once: the later one reads again and finds that nothing is left to do.
_ATTEMPTS: Final = 3


class KeyStore(Protocol):
    """Reads and changes all keys at once."""

    def change(self, change: Callable[[Mapping[str, bytes]], dict[str, bytes]]) -> tuple[set[str], set[str]]:
        """Applies a function to what is stored.

        Returns:
            The names that were added and those that were removed.
        """
        ...


@dataclass(frozen=True, slots=True)
class FolderStore:
    """Keys as files that only their owner can read."""

    folder: Path

    def read(self) -> dict[str, bytes]:
        """Returns file name to PEM; a folder that does not exist has none."""
        if not self.folder.is_dir():
            return {}
        try:
            return {path.name: path.read_bytes() for path in sorted(self.folder.glob(f"*{SUFFIX}")) if path.is_file()}
        except OSError as error:
            raise KeyStoreError(
                f"The session keys in {str(self.folder)!r} cannot be read ({error.strerror})",
                remedy="Let the user of this process read the folder and its files",
            ) from error

    def change(self, change: Callable[[Mapping[str, bytes]], dict[str, bytes]]) -> tuple[set[str], set[str]]:
        """Writes new keys, then removes old ones."""
        stored = self.read()
        wanted = change(stored)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in wanted.keys() - stored.keys():
            temporary = self.folder / f".{name}.new"
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(wanted[name])
            temporary.rename(self.folder / name)
        for name in stored.keys() - wanted.keys():
            (self.folder / name).unlink(missing_ok=True)
        return set(wanted) - set(stored), set(stored) - set(wanted)


@dataclass(frozen=True, slots=True)
class SecretStore:
    """Keys as the entries of one Secret, over the API of Kubernetes.

    Attributes:
        api: Address of the API server.
        namespace: Of the Secret.
        name: Of the Secret; it must exist, so that no right to create Secrets is needed.
        token_file: The ServiceAccount's token, read for each change because it is renewed.
        ca_file: Certificate of the API server; empty trusts the system's.
    """

    api: str
    namespace: str
    name: str
    token_file: Path
    ca_file: str = ""

    @classmethod
    def in_cluster(cls, name: str, environ: Mapping[str, str] | None = None) -> SecretStore:
        """Returns the store of the pod's own namespace.

        Raises:
            SettingsError: This is not a pod, or its ServiceAccount is not mounted.
        """
        env = os.environ if environ is None else environ
        host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
        namespace = SERVICE_ACCOUNT / "namespace"
        if not host or not namespace.is_file():
            raise SettingsError(
                f"The Secret {name!r} can only be changed from a pod with a mounted ServiceAccount",
                remedy="Run the CronJob of the edge chart, or rotate keys in a folder: --folder PATH",
            )
        bracketed = f"[{host}]" if ":" in host else host
        return cls(
            f"https://{bracketed}:{port}",
            namespace.read_text(encoding="utf-8").strip(),
            name,
            SERVICE_ACCOUNT / "token",
            str(SERVICE_ACCOUNT / "ca.crt"),
        )

    def change(self, change: Callable[[Mapping[str, bytes]], dict[str, bytes]]) -> tuple[set[str], set[str]]:
        """Replaces the Secret; reads it again where another writer changed it in between."""
        for _ in range(_ATTEMPTS):
            secret = self._call("GET")
            stored = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
            wanted = change(stored)
            if wanted == stored:
                return set(), set()
            secret["data"] = {name: base64.b64encode(value).decode() for name, value in wanted.items()}
            if self._call("PUT", secret):
                return set(wanted) - set(stored), set(stored) - set(wanted)
        raise KeyStoreError(f"The Secret {self.name!r} keeps being changed by another writer", remedy="Try again")

    def _call(self, method: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the Secret; an empty object where it was changed in between."""
        import requests

        url = f"{self.api}/api/v1/namespaces/{self.namespace}/secrets/{self.name}"
        try:
            headers = {"Authorization": f"Bearer {self.token_file.read_text(encoding='utf-8').strip()}"}
            answer = requests.request(
                method, url, json=body, headers=headers, timeout=_TIMEOUT_SECONDS, verify=self.ca_file or True
            )
        except (OSError, requests.RequestException) as error:
            raise KeyStoreError(
                f"The API of Kubernetes at {self.api} does not answer ({type(error).__name__})",
                remedy="Check the network policy of the rotation job",
            ) from error
        if answer.status_code == 409:
            return {}
        if not answer.ok:
            raise KeyStoreError(
                f"The Secret {self.name!r} in {self.namespace!r}: Kubernetes answers HTTP {answer.status_code}",
                remedy="The ServiceAccount needs get and update on this one Secret, which must exist (the edge chart "
                "creates all three)",
            )
        found: dict[str, Any] = answer.json()
        return found
