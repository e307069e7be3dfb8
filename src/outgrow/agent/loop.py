"""One `select.epoll` loop, and coroutines that wait on it.

asyncio cannot wait for EPOLLPRI, by which cgroup v2 says that memory.events changed. What is
needed beside that is little: callbacks on descriptors, timers, and coroutines whose steps take
seconds while every callback still runs at once.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_LONGEST_WAIT = 3600.0
"""epoll_wait(2) takes milliseconds in 32 bits; what is further away is waited for in turns."""


class Future(Generic[T]):
    """A result that is not there yet; `await` it. Set it once, in the loop's thread."""

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        """Whether the result is there."""
        return self._done

    def set(self, value: T) -> None:
        """Give the result; a second one is ignored."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        """Give an error for a result."""
        self._finish(None, error)

    def then(self, callback: Callable[[], None]) -> None:
        """Call back when done; at once if it is."""
        if self._done:
            callback()
        else:
            self._waiters.append(callback)

    def result(self) -> T:
        """The result; raises the error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Future[T], None, T]:
        if not self._done:
            yield self
        return self.result()

    def _finish(self, value: T | None, error: BaseException | None) -> None:
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        waiters, self._waiters = self._waiters, []
        for callback in waiters:
            callback()


class Timer:
    """A call in the future; `cancel` it when it is not wanted any more."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Do not call."""
        self._callback = None

    def fire(self) -> None:
        """Call, unless cancelled."""
        if self._callback is not None:
            self._callback()


class Loop:
    """See the module."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._ready: deque[Callable[[], None]] = deque()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self._wake, select.EPOLLIN, self._drain_wake)

    def watch(self, descriptor: int, mask: int, callback: Callable[[int], None]) -> None:
        """Call `callback(events)` whenever the descriptor is ready."""
        self._epoll.register(descriptor, mask)
        self._callbacks[descriptor] = callback

    def unwatch(self, descriptor: int) -> None:
        """Stop that. Call it before the descriptor is closed. Fine when it is not watched."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), timer))
        return timer

    def soon(self, callback: Callable[[], None]) -> None:
        """Call in the next turn. From any thread."""
        self._from_threads.append(callback)
        os.eventfd_write(self._wake, 1)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine beside everything else; its result is the future's."""
        future: Future[T] = Future()
        self._ready.append(lambda: self._step(coroutine, future))
        return future

    def sleep(self, seconds: float) -> Future[None]:
        """Done after `seconds`."""
        future: Future[None] = Future()
        self.later(seconds, lambda: future.set(None))
        return future

    def in_thread(self, work: Callable[[], T]) -> Future[T]:
        """Done when `work` has run, in a thread of its own."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                value = work()
            except BaseException as error:  # handed to whoever awaits
                failure = error
                self.soon(lambda: future.fail(failure))
            else:
                self.soon(lambda: future.set(value))

        threading.Thread(target=run, daemon=True).start()
        return future

    def run_until(self, future: Future[T]) -> T:
        """Serve until `future` is done; its result."""
        while True:
            while self._ready:
                self._ready.popleft()()
            if future.done:
                return future.result()
            self._turn()

    def _turn(self) -> None:
        for descriptor, events in self._poll():
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                callback(events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()

    def _poll(self) -> list[tuple[int, int]]:
        if self._ready:
            timeout = 0.0
        elif self._timers:
            timeout = min(max(0.0, self._timers[0][0] - time.monotonic()), _LONGEST_WAIT)
        else:
            timeout = -1
        return self._epoll.poll(timeout)

    def _drain_wake(self, _: int) -> None:
        os.eventfd_read(self._wake)
        while self._from_threads:
            self._from_threads.popleft()()

    def _step(self, coroutine: Coroutine[Any, Any, T], future: Future[T]) -> None:
        try:
            awaited = coroutine.send(None)
        except StopIteration as stop:
            future.set(stop.value)
        except BaseException as error:  # handed to whoever awaits
            future.fail(error)
        else:
            awaited.then(lambda: self._ready.append(lambda: self._step(coroutine, future)))
