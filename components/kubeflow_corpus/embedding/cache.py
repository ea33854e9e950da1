"""Vectors on disk by (model, text): for repeated local rebuilds, where embedding again is all that takes time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.errors import ArtifactError
from kubeflow_corpus.model import ModelIdentity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# SQLite's historic limit of variables in one statement.
_VARIABLES: Final = 900
_LAYOUT: Final = "CREATE TABLE IF NOT EXISTS vectors (hash TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"


class VectorCache:
    """One SQLite file per model. Several processes may use it at the same time.

    Args:
        folder: Where the files are; made where it is missing.
        identity: The model whose vectors are kept. Another model has another file.
    """

    def __init__(self, folder: Path, identity: ModelIdentity) -> None:
        self._dimension = identity.dimension
        key = f"{identity.model}\n{identity.revision}\n{identity.dimension}\n{identity.max_tokens}\n{identity.dtype}"
        if made_with := identity.document_prefix + identity.pooling:
            key += f"\n{made_with}"
        self.path = folder / f"vectors-{hashlib.sha256(key.encode()).hexdigest()[:16]}.sqlite"
        folder.mkdir(parents=True, exist_ok=True)
        # One writer and many readers; a commit that a power cut loses only has to be embedded again.
        self._execute("PRAGMA journal_mode=WAL", _LAYOUT)

    def find(self, hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Returns the vectors that are kept, by hash.

        Raises:
            ArtifactError: The file is damaged.
        """
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        try:
            with closing(self._connect()) as connection:
                for start in range(0, len(hashes), _VARIABLES):
                    some = hashes[start : start + _VARIABLES]
                    query = f"SELECT hash, vector FROM vectors WHERE hash IN ({','.join('?' * len(some))})"
                    for name, blob in connection.execute(query, some):
                        found[name] = np.frombuffer(blob, np.float32)
        except (sqlite3.Error, ValueError) as error:
            raise self._damaged(error) from error
        wrong = [name for name, vector in found.items() if vector.shape != (self._dimension,)]
        if wrong:
            raise self._damaged(f"vector {wrong[0]} has not {self._dimension} numbers")
        return found

    def keep(self, hashes: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keeps vectors.

        Args:
            hashes: n hashes of texts.
            vectors: Array of shape (n, dimension).

        Raises:
            ArtifactError: The file is damaged or the disk is full.
        """
        rows = [(name, vector.tobytes()) for name, vector in zip(hashes, vectors.astype("float32"), strict=True)]
        try:
            with closing(self._connect()) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _execute(self, *statements: str) -> None:
        try:
            with closing(self._connect()) as connection, connection:
                for statement in statements:
                    connection.execute(statement)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    def _damaged(self, how: object) -> ArtifactError:
        return ArtifactError(
            f"The vector cache {self.path} cannot be used: {how}",
            remedy="Delete the file (its vectors are then made again) or free some space",
            path=str(self.path),
        )
