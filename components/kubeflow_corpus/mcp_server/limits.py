"""Limits of load: token buckets per client and for all clients, and a bounded queue before the searches."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from kubeflow_corpus.errors import RateLimited, ShuttingDown

# Clients whose buckets are kept; the least recently seen one is dropped first.
MAX_CLIENTS: Final = 10_000


class TokenBucket:
    """A bucket that fills at `rate` tokens per second up to `capacity`.

    Source: Turner, "New directions in communications (or which way to the information age?)", 1986.
    """

    __slots__ = ("_at", "_capacity", "_rate", "_tokens")

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        self._rate = rate
        self._capacity = max(capacity, 1.0)
        self._tokens = self._capacity
        self._at = now

    def take(self, now: float) -> float:
        """Takes one token and returns 0, or returns the seconds until there is one."""
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class RateLimiter:
    """One bucket for all callers and one for each.

    Args:
        global_rate: Calls per second of all clients together; 0 means no limit.
        client_rate: Calls per second of one client; 0 means no limit.
        burst: Seconds of the rate that may be used at once.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, global_rate: float, client_rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._client_rate = client_rate
        self._burst = burst
        self._all = TokenBucket(global_rate, global_rate * burst, clock()) if global_rate else None
        self._clients: OrderedDict[str, TokenBucket] = OrderedDict()

    def check(self, client: str) -> None:
        """Counts one call.

        Raises:
            RateLimited: The client, or all clients together, exceed their rate.
        """
        now = self._clock()
        # The client's own bucket first: one greedy caller must not use up the tokens of the others.
        wait = self._client(client, now).take(now) if self._client_rate else 0.0
        if not wait and self._all:
            wait = self._all.take(now)
        if wait:
            raise RateLimited("Too many calls", remedy=f"Try again in {wait:.1f} seconds", retry_after=round(wait, 1))

    def _client(self, client: str, now: float) -> TokenBucket:
        bucket = self._clients.get(client)
        if bucket is None:
            bucket = self._clients[client] = TokenBucket(self._client_rate, self._client_rate * self._burst, now)
            if len(self._clients) > MAX_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        return bucket


class Admission:
    """Lets `concurrency` calls run and `queue` more wait; refuses the rest, and everything once closed."""

    def __init__(self, concurrency: int, queue: int) -> None:
        self._slots = asyncio.Semaphore(max(concurrency, 1))
        self._most = max(concurrency, 1) + queue
        self._inside = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def inside(self) -> int:
        """Calls that run or wait."""
        return self._inside

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Waits for a slot.

        Raises:
            ShuttingDown: The server is shutting down.
            RateLimited: The queue is full.
        """
        if self._closed:
            raise ShuttingDown("The server is shutting down", remedy="Call another replica, or try again soon")
        if self._inside >= self._most:
            raise RateLimited("The server is at its limit of waiting calls", remedy="Try again in a second")
        self._inside += 1
        self._idle.clear()
        try:
            async with self._slots:
                yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()

    async def close(self, seconds: float) -> bool:
        """Refuses new calls and waits for running ones; returns whether all of them finished in time."""
        self._closed = True
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            return False
        return True
