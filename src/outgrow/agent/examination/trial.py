"""Really saving and resuming a small process, by the way that jobs go."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from outgrow.agent.examination.clearing import cgroup_for_trying
from outgrow.agent.examination.subject import PARTS
from outgrow.agent.incarnation import LiveIncarnation
from outgrow.agent.loop import Future, Loop
from outgrow.core.errors import CannotSave, OutgrowError, Transient, Unsupported
from outgrow.core.units import MIB
from outgrow.kernel import proc
from outgrow.kernel.cgroups import Hierarchies
from outgrow.kernel.sockets import endpoints
from outgrow.launcher.child import Start
from outgrow.launcher.handle import inherited_streams, start_init
from outgrow.launcher.pids import last_pid_before_gap
from outgrow.launcher.program import own_program
from outgrow.launcher.streams import external_streams
from outgrow.ports import Cgroup, DumpRequest, Engine

KINDS = tuple(PARTS)
"""What a process may have inside that has to survive."""

_LIMIT = 256 * MIB
_PATIENCE = 20.0
"""Seconds for one save and resume, which takes less than one."""
_FREEZES_WITHIN = 2.0
_GRACE = 0.2


def survivors(engine: Engine, hierarchies: Hierarchies) -> dict[str, str]:
    """For each of `KINDS` an empty text, or why it does not survive a save and resume.

    Leaves nothing behind. Raises Unsupported where cgroups or namespaces
    cannot be made. Needs root.
    """
    together = attempt(engine, hierarchies, KINDS)
    if not any(together.values()):
        return together
    apart: dict[str, str] = {}
    for kind in KINDS:
        if apart.get("processes"):  # then the others only repeat it
            apart[kind] = apart["processes"]
        else:
            apart |= attempt(engine, hierarchies, (kind,))
    return apart


def attempt(
    engine: Engine | None, hierarchies: Hierarchies, kinds: Sequence[str]
) -> dict[str, str]:
    """The same for one process with all of `kinds` in it. Without an engine the process only runs
    in namespaces of its own, as every job does."""
    with cgroup_for_trying(hierarchies) as cgroup:
        cgroup.create(_LIMIT)
        trial = _Trial(cgroup)
        try:
            return trial.result(engine, kinds)
        except Unsupported:
            raise
        except OutgrowError as error:
            return dict.fromkeys(kinds, error.message)
        finally:
            trial.clear()


class _Trial:
    """One process, from its start to its end."""

    def __init__(self, cgroup: Cgroup) -> None:
        self._cgroup = cgroup
        self._loop = Loop()
        self._folder = Path(tempfile.mkdtemp(prefix="outgrow-trial-"))
        self._images = self._folder / "images"
        self._images.mkdir()
        self._job_in, self._to_job = os.pipe2(os.O_CLOEXEC)
        self._from_job, self._job_out = os.pipe2(os.O_CLOEXEC)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._streams = (self._job_in, self._job_out, self._null)
        self._keys = external_streams(self._streams)
        self._living: LiveIncarnation | None = None
        self._said = b""
        self._steps: Coroutine[Any, Any, dict[str, str]] | None = None

    def result(self, engine: Engine | None, kinds: Sequence[str]) -> dict[str, str]:
        """Raises OutgrowError with what failed."""
        self._steps = self._whole(engine, kinds)
        outcome: Future[dict[str, str]] = self._loop.spawn(self._steps)
        late = Transient(f"nothing came back within {_PATIENCE:.0f} s")
        timer = self._loop.later(_PATIENCE, lambda: outcome.fail(late))
        result = self._loop.run_until(outcome)
        timer.cancel()
        return result

    def clear(self) -> None:
        """End what runs, and remove the files."""
        if self._steps is not None:  # interrupted in the middle of them, perhaps
            self._steps.close()
        if self._living is not None:
            self._end(self._living)
        for descriptor in (*self._streams, self._to_job, self._from_job):
            os.close(descriptor)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _whole(self, engine: Engine | None, kinds: Sequence[str]) -> dict[str, str]:
        await self._begin(1, start=_how_to_start(kinds))
        if await self._line() != b"ready":
            raise Transient("the process did not start")
        if engine is not None:
            await self._save_and_resume(engine)
        os.write(self._to_job, b"go\n")
        answer = await self._line()
        try:
            survived = json.loads(answer)
        except ValueError:
            raise CannotSave("the process did not run on after it was resumed") from None
        return {kind: str(survived.get(kind, "it is gone")) for kind in kinds}

    async def _save_and_resume(self, engine: Engine) -> None:
        live = self._living
        if live is None or not self._cgroup.freeze(_FREEZES_WITHIN):
            raise Transient("the process could not be stopped")
        live.tell_frozen()
        pids: set[int] = set()
        for pid in self._cgroup.processes():
            pids |= proc.namespace_ids(pid)
        request = DumpRequest(
            root_pid=live.root_pid,
            images=self._images,
            freezer_path=self._cgroup.freezer_path,
            streams=self._keys,
            connected=bool(endpoints(self._cgroup.processes())[0]),
            timeout=_PATIENCE / 2,
        )
        await engine.dump(request, live)
        if not await live.release(1):
            raise CannotSave("the process ran on while it was being saved")
        root = live.root_pid
        self._end(live)
        self._cgroup.create(_LIMIT)
        pid_max = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
        restore = {
            "argv": engine.restore_argv(self._images, inherited_streams(self._keys)),
            "root": root,
            "last_pid": last_pid_before_gap(pids, pid_max),
        }
        try:
            await self._begin(2, restore=restore)
        except Transient:
            reason = engine.restore_error(self._images)
            raise CannotSave(f"CRIU could not bring it back: {reason}") from None

    async def _begin(
        self,
        number: int,
        *,
        start: Start | None = None,
        restore: Mapping[str, object] | None = None,
    ) -> None:
        init = start_init(
            self._folder,
            number,
            cgroup=self._cgroup,
            grace=_GRACE,
            streams=self._streams,
            start=start,
            restore=restore,
        )
        live = LiveIncarnation(self._loop, number, self._cgroup, init, self._folder, self._streams)
        self._living = live
        outcome = await live.started
        if outcome["event"] == "failed":
            raise Transient(f"it could not be started: {outcome['what']}")

    async def _line(self) -> bytes:
        """The next line that the process says; empty when it is gone."""
        line: Future[bytes] = Future()

        def read(_: int) -> None:
            piece = os.read(self._from_job, 4096)
            self._said += piece
            if not piece or b"\n" in self._said:
                said, self._said = self._said.partition(b"\n")[::2]
                line.set(said)

        self._loop.watch(self._from_job, select.EPOLLIN, read)
        if self._living is not None:  # we hold the pipe's other end as well: it never ends
            self._living.ended.then(lambda: line.set(b""))
        try:
            return await line
        finally:
            self._loop.unwatch(self._from_job)

    def _end(self, live: LiveIncarnation) -> None:
        """With PID 1 every process of its namespace dies; those that stand must be let go to."""
        self._living = None
        if live.alive:
            signal.pidfd_send_signal(live.init.pidfd, signal.SIGKILL)
            try:
                self._cgroup.thaw()
            except FileNotFoundError:
                pass
            select.select([live.init.pidfd], [], [], _FREEZES_WITHIN)
        try:
            os.waitpid(live.init.pid, 0)
        except ChildProcessError:
            pass  # it was somebody else's to wait for
        live.close()


def _how_to_start(kinds: Sequence[str]) -> Start:
    module = "outgrow.agent.examination.subject"
    return Start(
        argv=own_program(module, *kinds),
        directory="/",
        environment={"PATH": os.defpath},
        uid=os.getuid(),
        gid=os.getgid(),
        groups=os.getgroups(),
        umask=0o077,
        nice=0,
        oom_score_adj=0,
        streams=({"stream": 2, "path": os.devnull, "flags": os.O_WRONLY},),
    )
