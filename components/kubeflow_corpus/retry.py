"""Trying again: how often, and how long to wait in between."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often something is tried, and the pauses in between: each is `factor` times the one before.

    Attributes:
        attempts: Tries in all.
        base: Seconds of the first pause.
        cap: Seconds of the longest pause.
        factor: 1 for equal pauses.
        jitter: Whether a pause is random below its length, so that many clients do not come back at once.
        longest_request: Seconds that a server may ask to wait at most.
    """

    attempts: int
    base: float
    cap: float = math.inf
    factor: float = 2.0
    jitter: bool = False
    longest_request: float = math.inf

    def pause(self, attempt: int, requested: float = 0.0) -> float:
        """Returns the seconds to wait after a failed try (the first is 1).

        Args:
            attempt: Number of the try.
            requested: Seconds that the server asks to wait. Jitter comes on top: many clients got the same number.
        """
        requested = min(requested, self.longest_request)
        pause = min(self.cap, self.base * self.factor ** (attempt - 1))
        return requested + random.uniform(0, pause) if self.jitter else max(requested, pause)

    def tries(self, sleep: Sleep = time.sleep) -> Iterator[int]:
        """Yields the number of each try, the first at once and each further one after its pause."""
        for attempt in range(1, self.attempts + 1):
            if attempt > 1:
                sleep(self.pause(attempt - 1))
            yield attempt


def retry(
    call: Callable[[], Result],
    passes: Callable[[Exception], bool],
    backoff: Backoff,
    *,
    sleep: Sleep = time.sleep,
) -> Result:
    """Calls until there is a result.

    Args:
        call: What to call.
        passes: Whether another try may end without this error.
        backoff: How often.
        sleep: Instead of `time.sleep`, for tests.

    Raises:
        Exception: What the last call raised, or the first error that does not pass.
    """
    for attempt in backoff.tries(sleep):
        try:
            return call()
        except Exception as error:
            if attempt == backoff.attempts or not passes(error):
                raise
    raise AssertionError("nothing is tried fewer than one time")


def until_empty(
    look: Callable[[], Sequence[Result]], backoff: Backoff, *, sleep: Sleep = time.sleep
) -> Sequence[Result]:
    """Looks until nothing is found, and returns what the last look found."""
    found: Sequence[Result] = ()
    for _ in backoff.tries(sleep):
        found = look()
        if not found:
            break
    return found
