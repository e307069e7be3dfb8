"""Memory cgroups, freezer, guard and backstop, tried with a process that outgrows a small limit."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from outgrow.agent.examination.clearing import cgroup_for_trying
from outgrow.agent.examination.findings import Finding, missing, ok, untried
from outgrow.core.errors import Unsupported
from outgrow.core.units import MIB, format_size
from outgrow.kernel.cgroups import Hierarchies
from outgrow.launcher.program import own_program
from outgrow.ports import Cgroup

_LIMIT = 64 * MIB
_BAND = 16 * MIB
_BEYOND = 96
"""MiB that the process wants."""
_PATIENCE = 5.0
"""Seconds for what takes milliseconds."""
_STILL = 0.02
"""Seconds in which a process that runs grows by tens of MiB."""
_NOISE = MIB
"""Bytes by which a cgroup's usage moves although no task runs: the kernel charges in batches per
CPU, and settles them when it likes (memcg_stock, mm/memcontrol.c)."""
_HOLDS = 0.3
"""Seconds without a kill, at the limit, after which growth counts as held."""

_BOOT = (
    "boot with the memory controller (kernel parameter cgroup_enable=memory), and mount cgroup v2,"
    " or v1's memory and freezer, where this process sees it"
)
_WRITABLE = "run where cgroups may be made: on the host itself, or in a privileged container"
_REPORT = "please report this with the output of `uname -a`"


def examine_cgroups(hierarchies: Hierarchies) -> Finding:
    """Which cgroups are mounted."""
    if hierarchies.version == 1:
        return ok(
            "cgroups",
            f"version 1: memory and freezer at {hierarchies.memory} and {hierarchies.freezer}",
        )
    if hierarchies.version == 2:
        return ok("cgroups", f"version 2, with the memory controller, at {hierarchies.unified}")
    if hierarchies.memory is not None:
        return missing("cgroups", "version 1 with memory but without freezer", _BOOT)
    return missing("cgroups", "no memory controller is mounted", _BOOT)


def examine_limits(hierarchies: Hierarchies) -> list[Finding]:
    """Make a cgroup with a limit, let a process outgrow it, stop it, let it go on to the
    limit, and remove it all. Needs root."""
    with cgroup_for_trying(hierarchies) as cgroup:
        try:
            cgroup.create(_LIMIT)
        except Unsupported as error:
            return [
                missing("memory-limit", error.feature, _WRITABLE),
                *untried(("freezer", "guard", "backstop"), "no cgroup can be made", _WRITABLE),
            ]
        made = ok("memory-limit", f"made a cgroup, with a limit of {format_size(_LIMIT)}")
        with _filler(cgroup) as filler:
            return [made, *_outgrow(cgroup, filler)]


def _outgrow(cgroup: Cgroup, filler: subprocess.Popen[bytes]) -> list[Finding]:
    cgroup.arm(_BAND)
    _tell(filler)
    if not _event(cgroup):
        why = "no event came while a process grew past the mark"
        return [
            missing("guard", why, _REPORT),
            *untried(("freezer", "backstop"), "the guard does not work", _REPORT),
        ]
    heard = time.monotonic()
    frozen = cgroup.freeze(_PATIENCE)
    stopped = (time.monotonic() - heard) * 1000
    usage = cgroup.usage()
    used = format_size(max(0, usage - (_LIMIT - _BAND)))
    guard = ok(
        "guard",
        f"growth stood {stopped:.1f} ms after the kernel's event, with {used} of a band of"
        f" {format_size(_BAND)} used",
    )
    time.sleep(_STILL)
    stood = frozen and cgroup.usage() <= usage + _NOISE
    cgroup.thaw()
    went_on = _grows_past(cgroup, filler, usage + _NOISE)
    if not stood:
        freezer = missing("freezer", "tasks ran on while they should have stood", _REPORT)
    elif not went_on:
        freezer = missing("freezer", "tasks did not run on after they were thawed", _REPORT)
    else:
        freezer = ok("freezer", f"tasks stood {stopped:.1f} ms after they were told, and ran on")
    return [freezer, guard, _backstop(cgroup, filler)]


def _backstop(cgroup: Cgroup, filler: subprocess.Popen[bytes]) -> Finding:
    """At the limit a process waits (v1), or is throttled before it (v2), and is not killed."""
    end = time.monotonic() + _HOLDS
    while time.monotonic() < end and filler.poll() is None:
        time.sleep(0.01)  # nothing tells that nothing happens
    if filler.poll() is not None or cgroup.oom_kills():
        why = "the kernel killed a process that grew on past the guard"
        return missing("backstop", why, "none on this kernel; a larger --band takes its place")
    return ok("backstop", "growth past the guard waits at the limit, and is not killed")


def _event(cgroup: Cgroup) -> bool:
    poll = select.epoll()
    try:
        poll.register(cgroup.fileno(), cgroup.poll_mask)
        end = time.monotonic() + _PATIENCE
        while (left := end - time.monotonic()) > 0:
            if poll.poll(left) and cgroup.acknowledge():
                return True
        return False
    finally:
        poll.close()


def _grows_past(cgroup: Cgroup, filler: subprocess.Popen[bytes], usage: int) -> bool:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if cgroup.usage() > usage or filler.poll() is not None:
            return True
        time.sleep(0.001)
    return False


@contextmanager
def _filler(cgroup: Cgroup) -> Iterator[subprocess.Popen[bytes]]:
    """A process in `cgroup` that grows when it is told."""
    module = "outgrow.agent.examination.filler"
    filler = subprocess.Popen(
        own_program(module, *cgroup.join_files, str(_BEYOND)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if filler.stdout is None or not select.select([filler.stdout], [], [], _PATIENCE)[0]:
            raise TimeoutError("a process did not start in time")
        if filler.stdout.readline() != b"ready\n":
            raise OSError("no process could be started in a cgroup")
        yield filler
    finally:
        filler.kill()
        with suppress(OSError):  # interrupted, it may have been cleared away already
            cgroup.thaw()
        filler.wait(_PATIENCE)
        for end in (filler.stdin, filler.stdout):
            if end is not None:
                end.close()


def _tell(filler: subprocess.Popen[bytes]) -> None:
    if filler.stdin is not None:
        filler.stdin.write(b"g")
        filler.stdin.flush()
