"""One writer per collection: a lease with an expiry, kept in the properties of its versions.

Milvus has no compare-and-swap, so a writer writes its claim, waits a moment and reads it back: of two that claim at
once, the one whose claim stands goes on. A lease also lies on the candidate of a rebuild, so that it outlives the move
of the alias. A writer that dies leaves its lease behind; another takes it over at once where it can see that the
holder is dead (the same machine, or an embedded database, whose writers are all on this one), else after the expiry.

The steps of a run may be separate processes, so a lease belongs to a run and not to a process. Between two steps it
names the process that starts them, if the run has one (`Lease.process`): the parent of a step may be a shell that ends
with the step. Pods have no such process: there the expiry decides.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from kubeflow_corpus.errors import CorpusError, LeaseHeld
from kubeflow_corpus.processes import process_name, process_start
from kubeflow_corpus.store.schema import LEASE_KEY
from kubeflow_corpus.store.versions import Version, list_versions, properties_of, set_properties

if TYPE_CHECKING:
    from pymilvus import MilvusClient

# Longer than any single call of a writer takes (a flush or a load of a busy server: half a minute).
LEASE_SECONDS: Final = 300.0
# Between two steps of one run nothing renews the lease: as long as a pod may wait for its node.
HANDOVER_SECONDS: Final = 1800.0
_SETTLE_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 2.0
# Runs of this process that have ended and could not take back their claim: the database went away under them.
_LEFT_BEHIND: Final[set[str]] = set()


@dataclass(frozen=True, slots=True)
class Claim:
    """What the property records.

    Attributes:
        run: Id of the run: its later steps and retries go on under the same lease.
        host: Machine of the writer.
        process: Process id and start time, so that a recycled id is not mistaken for the writer; empty if the run has
            no process to watch: then only the expiry ends the lease.
        expires_at: Seconds since the epoch.
    """

    run: str
    host: str
    process: str
    expires_at: float

    def dumps(self) -> str:
        """Returns the property's value."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Claim | None:
        """Reads the property; None where it is not a claim."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


@dataclass(slots=True)
class Lease:
    """The right to write a collection, until it is released or runs out.

    Attributes:
        client: The connection.
        served: The alias with the environment's prefix.
        run: Id of the run.
        embedded: Whether the database is a ``.db`` path: every writer of it is on this machine.
        process: What starts the steps of the run on this machine, as `process_name` writes it; empty if nothing does.
        seconds: How long a claim is good for.
        names: Physical collections that carry the claim.
        clock: Instead of `time.time`, for tests.
        sleep: Instead of `time.sleep`, for tests.
    """

    client: MilvusClient
    served: str
    run: str
    embedded: bool = False
    process: str = ""
    seconds: float = LEASE_SECONDS
    names: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    _renewed_at: float = 0.0

    def acquire(self, wait_seconds: float = 0.0, announce: Callable[[str], None] = lambda line: None) -> list[Version]:
        """Takes the lease over the live version, if there is one.

        Args:
            wait_seconds: How long to wait for another writer.
            announce: Gets one line when it waits.

        Returns:
            The versions of the collection as they are under the lease.

        Raises:
            LeaseHeld: Another writer is at work.
        """
        deadline = self.clock() + wait_seconds
        announced = False
        while True:
            versions = list_versions(self.client, self.served)
            other = next(iter(self._other_claims(versions)), None)
            if other is None and self._claim(versions):
                return list_versions(self.client, self.served)
            if self.clock() >= deadline:
                raise self._refusal(other)
            if not announced:
                announce(
                    f"{self.served}: waiting up to {wait_seconds:.0f} s for run {other.run if other else '?'} to end"
                )
                announced = True
            self.sleep(min(_POLL_SECONDS, max(0.0, deadline - self.clock())))

    @contextmanager
    def taken(
        self, wait_seconds: float = 0.0, announce: Callable[[str], None] = lambda line: None
    ) -> Iterator[list[Version]]:
        """Takes the lease for a block, as `acquire` does, and releases it however the block ends."""
        versions = self.acquire(wait_seconds, announce)
        try:
            yield versions
        finally:
            self.let_go()

    def value(self) -> str:
        """Returns the claim as a property, to create a candidate with it."""
        return self._own_claim(process_name(os.getpid()), self.seconds).dumps()

    def cover(self, name: str) -> None:
        """Puts the claim on another version too: the candidate of this run."""
        if name not in self.names:
            self.names.append(name)
        set_properties(self.client, name, {LEASE_KEY: self.value()})

    def renew(self, *, force: bool = False) -> None:
        """Makes the lease last longer; cheap to call often.

        Raises:
            LeaseHeld: It ran out and another writer took it.
        """
        if not force and self.clock() - self._renewed_at < self.seconds / 3:
            return
        self.check()
        for name in self.names:
            set_properties(self.client, name, {LEASE_KEY: self.value()})
        self._renewed_at = self.clock()

    def check(self) -> None:
        """Makes sure that no other run has a lease, before a step that cannot be undone.

        Raises:
            LeaseHeld: Another run has one.
        """
        other = next(iter(self._other_claims(list_versions(self.client, self.served))), None)
        if other is not None:
            raise self._refusal(other)

    def hand_over(self, *, to_process: bool = False) -> None:
        """Keeps the lease for the next step of the same run.

        Args:
            to_process: Whether the next step is another process: then the lease lives while the process that starts
                the steps does, and not only while this one does.
        """
        claim = self._own_claim(self.process if to_process else process_name(os.getpid()), HANDOVER_SECONDS)
        for name in self.names:
            set_properties(self.client, name, {LEASE_KEY: claim.dumps()})
        self._renewed_at = self.clock()

    @contextmanager
    def kept(self) -> Iterator[Callable[[], None]]:
        """Keeps a lease that an earlier step of this run handed over, while a step that writes nothing is at work.

        Yields:
            A function that renews the lease; the step calls it now and then, and it is cheap to call often.

        Raises:
            Exception: What the body raises. The lease is then released: no later step will do so.
        """
        self.names = [version.name for version in list_versions(self.client, self.served) if self._is_own(version)]
        self.hand_over(to_process=True)

        def keep() -> None:
            if self.clock() - self._renewed_at > HANDOVER_SECONDS / 3:
                self.hand_over(to_process=True)

        try:
            yield keep
        except BaseException:
            self.let_go()
            raise

    def let_go(self) -> None:
        """Releases the lease where a run ends, if it can: an error that is under way says more than one about it."""
        try:
            self.release()
        except CorpusError:
            _LEFT_BEHIND.add(self.run)

    def release(self) -> None:
        """Removes the claim of this run from every version."""
        for version in list_versions(self.client, self.served):
            if self._is_own(version):
                set_properties(self.client, version.name, {LEASE_KEY: ""})
        self.names.clear()

    def _own_claim(self, holder: str, seconds: float) -> Claim:
        return Claim(self.run, socket.gethostname(), holder, self.clock() + seconds)

    def _claim(self, versions: Iterable[Version]) -> bool:
        # Every version: an alias that is rolled back while this run writes leads to one that carries the claim too.
        self.names = [version.name for version in versions if version.live] or [version.name for version in versions]
        value = self.value()
        for version in versions:
            if version.name in self.names:
                set_properties(self.client, version.name, {LEASE_KEY: value})
            elif version.properties.get(LEASE_KEY):
                # A killed writer left it.
                set_properties(self.client, version.name, {LEASE_KEY: ""})
        if self.names:
            self.sleep(_SETTLE_SECONDS)
        self._renewed_at = self.clock()
        return all(properties_of(self.client, name).get(LEASE_KEY) == value for name in self.names)

    def _is_own(self, version: Version) -> bool:
        claim = Claim.loads(version.properties.get(LEASE_KEY, ""))
        return claim is not None and claim.run == self.run

    def _other_claims(self, versions: Iterable[Version]) -> Iterable[Claim]:
        for version in versions:
            claim = Claim.loads(version.properties.get(LEASE_KEY, ""))
            if (
                claim is not None
                and claim.run != self.run
                and claim.expires_at > self.clock()
                and not self._is_dead(claim)
            ):
                yield claim

    def _is_dead(self, claim: Claim) -> bool:
        if claim.run in _LEFT_BEHIND:
            return True
        elsewhere = claim.host != socket.gethostname()
        if elsewhere and not self.embedded:
            return False
        # Whoever writes an embedded database is on this machine, which may have had another name (a laptop takes that
        # of its network).
        pid, _, started = claim.process.partition("@")
        return process_start(int(pid)) != started if pid.isdigit() else elsewhere

    def _refusal(self, other: Claim | None) -> LeaseHeld:
        left = max(0.0, other.expires_at - self.clock()) if other else 0.0
        owner = f"run {other.run} on {other.host}" if other else "another run"
        return LeaseHeld(
            f"{self.served} is being written by {owner} (its lease ends in {left:.0f} s unless it is renewed)",
            remedy="Wait for it to end, or let this run wait: --wait SECONDS",
            owner=owner,
            expires_at=other.expires_at if other else 0.0,
        )
