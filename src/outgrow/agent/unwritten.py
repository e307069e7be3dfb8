"""What no engine writes down of a job, beside its files (agent/written.py): noted when it is saved,
and put right when it is back. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from outgrow.agent.guard import FREEZE_TIMEOUT
from outgrow.core.connections import leading_out
from outgrow.kernel.scheduling import own_schedules, schedule_again
from outgrow.kernel.sockets import endpoints, reset
from outgrow.ports import Cgroup, Description


def note(description: Description, pids: Sequence[int], like: int) -> tuple[Description, bool]:
    """The description with what the standing processes `pids` have, and whether they have TCP
    connections at all. `like`: the process that started the job."""
    connections, listeners = endpoints(pids)
    noted = replace(
        description,
        leading_out=leading_out(connections),
        listeners=listeners,
        schedules=own_schedules(pids, like),
    )
    return noted, bool(connections)


def put_right(cgroup: Cgroup, description: Description) -> int:
    """For a job that has just come back in `cgroup`. How many of its connections were reset: nobody
    is at their other end any more, and the job might wait for an answer for ever."""
    number = 0
    with suppress(OSError):  # so soon it has ended; and it runs, whatever could not be put right
        schedule_again(cgroup.processes(), description.schedules)
        if description.leading_out:
            # It stands while they are reset: a task in the midst of recv(2) would get EPIPE, and
            # not ECONNRESET as of a peer (sk_wait_event, include/net/sock.h).
            cgroup.freeze(FREEZE_TIMEOUT)
            try:
                number = reset(cgroup.processes(), description.leading_out)
            finally:
                cgroup.thaw()
    return number
