"""The loop: callbacks, timers, threads and coroutines in one place."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator

import pytest

from outgrow.agent.loop import Future, Loop, Timer


class Boom(Exception):
    """What a test raises."""


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


# -- futures


def test_a_future_is_set_once() -> None:
    future: Future[int] = Future()
    assert not future.done
    future.set(1)
    future.set(2)
    future.fail(Boom())
    assert future.done
    assert future.result() == 1


def test_a_future_that_failed_raises_whenever_it_is_asked() -> None:
    future: Future[int] = Future()
    future.fail(Boom("why"))
    future.set(1)
    for _ in range(2):
        with pytest.raises(Boom, match="why"):
            future.result()


def test_who_waits_for_a_future_is_called_once_in_order() -> None:
    future: Future[int] = Future()
    called: list[str] = []
    future.then(lambda: called.append("first"))
    future.then(lambda: called.append("second"))
    assert called == []
    future.set(1)
    future.set(2)
    assert called == ["first", "second"]
    future.then(lambda: called.append("late"))
    assert called == ["first", "second", "late"]


# -- coroutines


def test_a_coroutine_gives_its_result(loop: Loop) -> None:
    async def work() -> str:
        return "done"

    assert loop.run_until(loop.spawn(work())) == "done"


def test_a_coroutine_gives_its_error(loop: Loop) -> None:
    async def work() -> None:
        raise Boom("why")

    with pytest.raises(Boom, match="why"):
        loop.run_until(loop.spawn(work()))


def test_nothing_of_a_coroutine_runs_before_the_loop_does(loop: Loop) -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    future = loop.spawn(work())
    assert ran == []
    loop.run_until(future)
    assert ran == [1]


def test_awaiting_what_is_done_costs_no_turn(loop: Loop) -> None:
    done: Future[int] = Future()
    done.set(7)

    async def work() -> int:
        return await done + await done

    assert loop.run_until(loop.spawn(work())) == 14


def test_an_error_that_is_awaited_can_be_caught(loop: Loop) -> None:
    failed: Future[int] = Future()

    async def work() -> str:
        try:
            await failed
        except Boom as error:
            return str(error)
        return "nothing"

    future = loop.spawn(work())
    loop.later(0, lambda: failed.fail(Boom("caught")))
    assert loop.run_until(future) == "caught"


def test_coroutines_run_beside_each_other(loop: Loop) -> None:
    steps: list[str] = []
    turns: Future[None] = Future()

    async def first() -> None:
        steps.append("first waits")
        await turns
        steps.append("first goes on")

    async def second() -> None:
        steps.append("second")
        turns.set(None)

    one, two = loop.spawn(first()), loop.spawn(second())
    loop.run_until(two)
    loop.run_until(one)
    assert steps == ["first waits", "second", "first goes on"]


def test_two_coroutines_may_wait_for_one_future(loop: Loop) -> None:
    shared: Future[int] = Future()

    async def work(factor: int) -> int:
        return await shared * factor

    futures = [loop.spawn(work(factor)) for factor in (1, 10)]
    loop.later(0, lambda: shared.set(3))
    assert [loop.run_until(future) for future in futures] == [3, 30]


def test_a_future_that_a_waiting_callback_sets_ends_the_loop(loop: Loop) -> None:
    """Even where nothing else would ever wake it."""
    inner: Future[int] = Future()

    async def work() -> int:
        return await inner

    outer = loop.spawn(work())
    loop.later(0, lambda: inner.set(1))
    assert loop.run_until(outer) == 1


# -- timers


def test_timers_fire_in_order_of_time_and_then_of_asking(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[str] = []
    done: Future[None] = Future()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    loop.later(0.006, lambda: done.set(None))
    loop.later(0.004, lambda: fired.append("last"))
    loop.later(0.002, lambda: fired.append("second"))
    loop.later(0, lambda: fired.append("first"))
    loop.later(0, lambda: fired.append("first, asked later"))
    monkeypatch.undo()
    loop.run_until(done)
    assert fired == ["first", "first, asked later", "second", "last"]


def test_a_cancelled_timer_does_not_fire(loop: Loop) -> None:
    fired: list[int] = []
    timer = loop.later(0, lambda: fired.append(1))
    timer.cancel()
    timer.cancel()
    loop.run_until(loop.sleep(0.002))
    assert fired == []


def test_a_timer_may_cancel_one_that_is_due_with_it(loop: Loop) -> None:
    fired: list[int] = []
    timers: list[Timer] = []

    def cancel() -> None:
        timers[0].cancel()

    loop.later(0, cancel)
    timers.append(loop.later(0, lambda: fired.append(1)))
    loop.run_until(loop.sleep(0.002))
    assert fired == []


def test_a_timer_that_asks_for_another_lets_everybody_else_run(
    loop: Loop, pipe: tuple[int, int]
) -> None:
    heard: Future[bytes] = Future()

    def again() -> None:
        if not heard.done:
            loop.later(0, again)

    loop.later(0, again)
    loop.watch(pipe[0], select.EPOLLIN, lambda _: heard.set(os.read(pipe[0], 9)))
    os.write(pipe[1], b"heard")
    assert loop.run_until(heard) == b"heard"


@pytest.mark.parametrize("seconds", [30 * 86400.0, 1e18, float("inf")])
def test_a_timer_far_away_is_no_obstacle(loop: Loop, seconds: float) -> None:
    """As `--warn-grace 30d` sets one."""
    loop.later(seconds, lambda: None)
    woken: Future[None] = Future()
    loop.soon(lambda: woken.set(None))
    loop.run_until(woken)


# -- descriptors


def test_a_callback_is_called_while_its_descriptor_is_ready(
    loop: Loop, pipe: tuple[int, int]
) -> None:
    seen: list[tuple[int, bytes]] = []
    done: Future[None] = Future()

    def ready(events: int) -> None:
        seen.append((events, os.read(pipe[0], 1)))
        if len(seen) == 2:
            done.set(None)

    loop.watch(pipe[0], select.EPOLLIN, ready)
    os.write(pipe[1], b"ab")
    loop.run_until(done)
    assert seen == [(select.EPOLLIN, b"a"), (select.EPOLLIN, b"b")]


def test_an_unwatched_descriptor_is_silent(loop: Loop, pipe: tuple[int, int]) -> None:
    called: list[int] = []
    loop.watch(pipe[0], select.EPOLLIN, called.append)
    os.write(pipe[1], b"x")
    loop.unwatch(pipe[0])
    loop.unwatch(pipe[0])
    loop.run_until(loop.sleep(0.002))
    assert called == []


def test_a_callback_may_unwatch_one_that_is_ready_with_it(loop: Loop) -> None:
    """As when PID 1's last message and its end come in one turn."""
    ends = [os.pipe() for _ in range(2)]
    called: list[int] = []

    def ready(index: int) -> None:
        called.append(index)
        for read_end, _ in ends:
            loop.unwatch(read_end)

    for index, (read_end, write_end) in enumerate(ends):
        loop.watch(read_end, select.EPOLLIN, lambda _, index=index: ready(index))  # type: ignore[misc]
        os.write(write_end, b"x")
    loop.run_until(loop.sleep(0.002))
    assert len(called) == 1
    for read_end, write_end in ends:
        os.close(read_end)
        os.close(write_end)


def test_callbacks_run_while_a_coroutine_waits(loop: Loop, pipe: tuple[int, int]) -> None:
    """What the guard lives on: it is called at once, whatever a save is waiting for."""
    order: list[str] = []
    saved: Future[None] = Future()

    def crossed(_: int) -> None:
        loop.unwatch(pipe[0])
        order.append("the guard")
        saved.set(None)

    async def save() -> None:
        order.append("the save begins")
        await saved
        order.append("the save is done")

    loop.watch(pipe[0], select.EPOLLIN, crossed)
    future = loop.spawn(save())
    os.write(pipe[1], b"x")
    loop.run_until(future)
    assert order == ["the save begins", "the guard", "the save is done"]


# -- threads


def test_work_in_a_thread_gives_its_result_in_the_loops_thread(loop: Loop) -> None:
    threads: list[int] = []

    def work() -> str:
        threads.append(threading.get_ident())
        return "done"

    future = loop.in_thread(work)
    future.then(lambda: threads.append(threading.get_ident()))
    assert loop.run_until(future) == "done"
    assert threads[0] != threads[1] == threading.get_ident()


@pytest.mark.parametrize("error", [Boom("why"), SystemExit(3), KeyboardInterrupt()])
def test_work_in_a_thread_gives_its_error(loop: Loop, error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)):
        loop.run_until(loop.in_thread(work))


def test_the_loop_serves_while_a_thread_works(loop: Loop, pipe: tuple[int, int]) -> None:
    go_on = threading.Event()

    def served(_: int) -> None:
        loop.unwatch(pipe[0])
        go_on.set()

    loop.watch(pipe[0], select.EPOLLIN, served)
    work = loop.in_thread(lambda: go_on.wait(20))
    os.write(pipe[1], b"x")
    assert loop.run_until(work) is True


def test_calls_from_threads_are_all_made_in_order(loop: Loop) -> None:
    called: list[int] = []
    done: Future[None] = Future()

    def call() -> None:
        for number in range(1000):
            loop.soon(lambda number=number: called.append(number))  # type: ignore[misc]
        loop.soon(lambda: done.set(None))

    thread = threading.Thread(target=call)
    thread.start()
    loop.run_until(done)
    thread.join()
    assert called == list(range(1000))


def test_a_loop_runs_again_where_it_stopped(loop: Loop) -> None:
    fired: list[int] = []
    loop.later(0.002, lambda: fired.append(1))
    loop.run_until(loop.sleep(0))
    assert fired == []
    loop.run_until(loop.sleep(0.004))
    assert fired == [1]
