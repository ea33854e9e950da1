from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kubeflow_corpus.errors import LeaseHeld
from kubeflow_corpus.processes import process_name, process_start
from kubeflow_corpus.store.lease import HANDOVER_SECONDS, Claim, Lease
from kubeflow_corpus.store.versions import live_name, properties_of, set_properties

from tests.servers.milvus_lite import MilvusLiteServer
from tests.store.conftest import Store
from tests.store.synthetic import corpus, rows_of


def live(store: Store) -> str:
    return live_name(store.client, store.served)


def claim(store: Store, **values: object) -> None:
    held = {
        "run": "other",
        "host": socket.gethostname(),
        "process": process_name(os.getpid()),
        "expires_at": time.time() + 60,
    }
    set_properties(store.client, live(store), {"lease": Claim(**{**held, **values}).dumps()})  # type: ignore[arg-type]


def test_a_second_writer_is_stopped_with_a_clear_line_and_readers_go_on(store: Store) -> None:
    store.run(corpus("site", 2)).all()
    claim(store)
    with pytest.raises(LeaseHeld, match="is being written by run other on .*--wait SECONDS"):
        store.run(corpus("site", 2, edit=" x")).all()
    assert len(rows_of(store.client, store.served)) == 6


def test_an_incremental_run_is_stopped_while_a_rebuild_is_between_two_steps(embedded: Store) -> None:
    embedded.run(corpus("site", 2)).all()
    rebuild = embedded.run(corpus("site", 2), mode="rebuild")
    plan = rebuild.plan()
    record = rebuild.apply(plan, rebuild.embed(plan))
    with pytest.raises(LeaseHeld, match=plan.run):
        embedded.run(corpus("site", 2, edit=" x")).all()
    rebuild.publish(plan, record)
    assert embedded.run(corpus("site", 2, edit=" x")).all().outcome == "published"


def test_a_lease_that_ran_out_is_taken_over(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    claim(embedded, expires_at=time.time() - 1)
    assert embedded.run(corpus("site", 1)).all().outcome == "published"


def test_the_lease_of_a_dead_process_is_taken_over_at_once(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    claim(embedded, process=process_name(child.pid))
    with pytest.raises(LeaseHeld):
        embedded.run(corpus("site", 1)).all()
    child.kill()
    child.wait()
    assert process_start(child.pid) == ""
    assert embedded.run(corpus("site", 1)).all().outcome == "published"


def test_the_writer_of_an_embedded_database_is_known_by_its_process_whatever_its_machine_was_called(
    embedded: Store,
) -> None:
    embedded.run(corpus("site", 1)).all()
    claim(embedded, host="laptop-at-home")
    with pytest.raises(LeaseHeld):
        embedded.run(corpus("site", 1, edit=" x")).all()
    claim(embedded, host="laptop-at-home", process=f"{os.getpid()}@1")
    assert embedded.run(corpus("site", 1, edit=" x")).all().outcome == "published"
    claim(embedded, host="laptop-at-home", process="")
    assert embedded.run(corpus("site", 1, edit=" y")).all().outcome == "published"


def test_a_writer_of_a_server_on_another_machine_is_waited_for_though_its_process_is_not_here(
    open_store: Callable[[str], Store], lite_server: MilvusLiteServer
) -> None:
    store = open_store(lite_server.uri)
    store.run(corpus("site", 1)).all()
    claim(store, host="elsewhere", process=f"{os.getpid()}@1")
    with pytest.raises(LeaseHeld, match="on elsewhere"):
        store.run(corpus("site", 1, edit=" x")).all()


# A step of a run as KFP's local runner starts it: a process below a shell that ends with it.
STEP = """
import sys
from kubeflow_corpus.settings import Settings
from kubeflow_corpus.milvus import connected
from kubeflow_corpus.store.lease import Lease
with connected(Settings(milvus_uri=sys.argv[1])) as client:
    lease = Lease(client, sys.argv[2], "stepwise", process=sys.argv[3])
    lease.acquire()
    lease.hand_over(to_process=True)
"""
RUNNER = """
import os, subprocess, sys, time
from kubeflow_corpus.processes import process_name
process = process_name(os.getpid()) if sys.argv[1] == "named" else ""
subprocess.run(["sh", "-c", '"$@"; true', "step", sys.executable, "-c", *sys.argv[2:], process], check=True)
print("between two steps", flush=True)
time.sleep(300)
"""


@contextmanager
def between_two_steps(store: Store, how: str) -> Iterator[subprocess.Popen[str]]:
    """The process that starts the steps of a run, after the first of them."""
    command = [sys.executable, "-c", RUNNER, how, STEP, store.settings.milvus_uri, store.served]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "between two steps\n"
        yield runner
        runner.kill()


@pytest.mark.slow
def test_a_lease_outlives_the_step_and_its_shell_while_the_process_that_starts_the_steps_lives(
    open_store: Callable[[str], Store], lite_server: MilvusLiteServer
) -> None:
    store = open_store(lite_server.uri)
    store.run(corpus("site", 1)).all()
    with between_two_steps(store, "named") as runner:
        with pytest.raises(LeaseHeld, match="written by run stepwise"):
            store.run(corpus("site", 1)).all()
        # The next step of the same run goes on under the same lease.
        Lease(store.client, store.served, "stepwise").check()
        runner.kill()
        runner.wait()
        assert store.run(corpus("site", 1)).all().outcome == "published"


@pytest.mark.slow
def test_a_lease_without_a_process_ends_with_its_expiry_only(
    open_store: Callable[[str], Store], lite_server: MilvusLiteServer
) -> None:
    store = open_store(lite_server.uri)
    store.run(corpus("site", 1)).all()
    with between_two_steps(store, "unnamed") as runner:
        runner.kill()
        runner.wait()
        held = Claim.loads(properties_of(store.client, live(store))["lease"])
        assert held is not None
        with pytest.raises(LeaseHeld):
            Lease(store.client, store.served, "next").acquire()
        Lease(store.client, store.served, "next", clock=lambda: held.expires_at + 1).acquire()


def test_a_step_that_only_looks_keeps_the_lease_and_gives_it_back_where_it_fails(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    now = [time.time()]
    lease = Lease(embedded.client, embedded.served, "mine", embedded=True, clock=lambda: now[0])
    lease.acquire()
    lease.hand_over(to_process=True)
    later = Lease(embedded.client, embedded.served, "mine", embedded=True, clock=lambda: now[0])
    with pytest.raises(ZeroDivisionError), later.kept() as keep:
        # Longer than a lease lasts between two steps.
        for _ in range(4):
            now[0] += HANDOVER_SECONDS / 2
            keep()
            rival = Lease(embedded.client, embedded.served, "rival", embedded=True, clock=lambda: now[0])
            with pytest.raises(LeaseHeld):
                rival.acquire()
        raise ZeroDivisionError
    assert properties_of(embedded.client, live(embedded))["lease"] == ""


def test_a_writer_waits_and_says_so_until_the_other_is_done(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    claim(embedded)
    lines: list[str] = []
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            set_properties(embedded.client, live(embedded), {"lease": ""})

    lease = Lease(embedded.client, embedded.served, "mine", embedded=True, sleep=sleep)
    lease.acquire(wait_seconds=30, announce=lines.append)
    # It waits until the lease is free, and after its claim for one that came at the same time.
    assert pauses == [2.0, 2.0, 2.0, 0.2]
    assert lines == [f"{embedded.served}: waiting up to 30 s for run other to end"]
    lease.release()
    assert properties_of(embedded.client, live(embedded))["lease"] == ""


def test_a_writer_that_lost_its_lease_stops_before_the_next_step_that_cannot_be_taken_back(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    lease = Lease(embedded.client, embedded.served, "mine", embedded=True)
    lease.acquire()
    claim(embedded)
    with pytest.raises(LeaseHeld):
        lease.check()
    with pytest.raises(LeaseHeld):
        lease.renew(force=True)


def test_of_two_that_claim_at_once_one_goes_on(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    first = Lease(embedded.client, embedded.served, "first")

    def rival(seconds: float) -> None:
        claim(embedded, run="second")

    first.sleep = rival
    with pytest.raises(LeaseHeld):
        first.acquire()


def test_a_lease_is_released_when_a_run_fails(embedded: Store) -> None:
    embedded.run(corpus("site", 1)).all()
    run = embedded.run(corpus("site", 2))
    with pytest.raises(Exception, match="have no vector"):
        run.apply(run.plan(), [])
    assert properties_of(embedded.client, live(embedded))["lease"] == ""
