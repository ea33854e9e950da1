"""How long a search may still take."""

from __future__ import annotations

import time
from collections.abc import Callable

from kubeflow_corpus.errors import DeadlineExceeded

# Nothing useful is done in less.
_LEAST_SECONDS = 0.005


class Deadline:
    """A moment that no stage may pass.

    Args:
        seconds: From now.
        clock: Monotonic seconds, for tests.
    """

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left(self, stage: str, share: float = 1.0) -> float:
        """Returns the seconds that a stage may take.

        Args:
            stage: For the error.
            share: Part of what is left.

        Raises:
            DeadlineExceeded: Nothing is left.
        """
        seconds = self._end - self._clock()
        if seconds < _LEAST_SECONDS:
            raise self.exceeded(stage)
        return seconds * share

    def passed(self) -> bool:
        """Whether nothing useful can be done any more."""
        return self._end - self._clock() < _LEAST_SECONDS

    def exceeded(self, stage: str) -> DeadlineExceeded:
        """Returns the error for a stage that came too late."""
        return DeadlineExceeded(
            f"The search did not finish within {self.seconds:g} s (stage: {stage})",
            remedy="Give a longer timeout, or look at the load of Milvus and of the embedding service",
            stage=stage,
        )
