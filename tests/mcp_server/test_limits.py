import asyncio

import pytest
from kubeflow_corpus.errors import RateLimited, ShuttingDown
from kubeflow_corpus.mcp_server.limits import MAX_CLIENTS, Admission, RateLimiter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_client_may_use_its_burst_at_once_and_then_its_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(0, 2, 2, clock)

    for _ in range(4):
        limiter.check("a")
    with pytest.raises(RateLimited) as caught:
        limiter.check("a")
    assert caught.value.fields["retry_after"] == 0.5

    clock.now += 0.5
    limiter.check("a")


def test_one_greedy_client_leaves_the_others_their_share() -> None:
    limiter = RateLimiter(10, 1, 1, Clock())

    limiter.check("greedy")
    for _ in range(50):
        with pytest.raises(RateLimited):
            limiter.check("greedy")
    for client in "bcdefghi":
        limiter.check(client)


def test_all_clients_together_are_limited_too() -> None:
    limiter = RateLimiter(3, 0, 1, Clock())

    for client in "abc":
        limiter.check(client)
    with pytest.raises(RateLimited):
        limiter.check("d")


def test_a_rate_of_zero_means_no_limit() -> None:
    limiter = RateLimiter(0, 0, 1, Clock())

    for _ in range(1000):
        limiter.check("a")


def test_a_rate_below_one_a_second_still_admits_the_first_call() -> None:
    limiter = RateLimiter(0, 0.1, 1, Clock())

    limiter.check("a")
    with pytest.raises(RateLimited):
        limiter.check("a")


def test_invented_clients_use_bounded_memory() -> None:
    limiter = RateLimiter(0, 1, 1, Clock())

    for number in range(MAX_CLIENTS + 500):
        limiter.check(str(number))

    assert len(limiter._clients) == MAX_CLIENTS


def test_calls_beyond_slots_and_queue_are_refused() -> None:
    async def scenario() -> list[str]:
        admission = Admission(concurrency=2, queue=1)
        release = asyncio.Event()

        async def call() -> str:
            try:
                async with admission.enter():
                    await release.wait()
            except RateLimited:
                return "refused"
            return "done"

        calls = [asyncio.create_task(call()) for _ in range(5)]
        await asyncio.sleep(0.05)
        release.set()
        return sorted(await asyncio.gather(*calls))

    assert asyncio.run(scenario()) == ["done", "done", "done", "refused", "refused"]


def test_closing_waits_for_what_runs_and_takes_nothing_new() -> None:
    async def scenario() -> tuple[bool, str]:
        admission = Admission(concurrency=1, queue=1)
        entered = asyncio.Event()

        async def call() -> str:
            async with admission.enter():
                entered.set()
                await asyncio.sleep(0.1)
            return "done"

        running = asyncio.create_task(call())
        await entered.wait()
        closing = asyncio.create_task(admission.close(5))
        await asyncio.sleep(0.01)
        with pytest.raises(ShuttingDown):
            async with admission.enter():
                pass
        return await closing, await running

    assert asyncio.run(scenario()) == (True, "done")


def test_closing_gives_up_on_a_call_that_does_not_end() -> None:
    async def scenario() -> bool:
        admission = Admission(concurrency=1, queue=0)
        entered = asyncio.Event()

        async def call() -> None:
            async with admission.enter():
                entered.set()
                await asyncio.sleep(60)

        running = asyncio.create_task(call())
        await entered.wait()
        finished = await admission.close(0.05)
        running.cancel()
        return finished

    assert asyncio.run(scenario()) is False
