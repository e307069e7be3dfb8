"""CRIU as an Engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from outgrow.core.errors import CannotSave
from outgrow.core.fingerprint import Fingerprint
from outgrow.engines.criu import argv, log
from outgrow.engines.criu.find import find_criu, version_of
from outgrow.ports import DumpRequest, Runner

_NO_SUCH_PROGRAM = 127


class CriuEngine:
    """`cpu_features` names those of this CPU. Raises Unsupported when there is no CRIU."""

    def __init__(self, cpu_features: Callable[[], frozenset[str]]) -> None:
        self.criu = find_criu()
        self.version = version_of(self.criu)
        self._cpu_features = cpu_features

    async def dump(self, request: DumpRequest, runner: Runner) -> None:
        command = argv.dump_argv(
            self.criu,
            root_pid=request.root_pid,
            images=request.images,
            freezer=request.freezer_path,
            streams=request.streams,
            network_lock=_network_lock() if request.connected else "skip",
            lossy=request.lossy,
        )
        status = await runner.run(command, request.timeout)
        if status == 0:
            return
        if status == _NO_SUCH_PROGRAM:
            raise CannotSave(f"{self.criu} cannot be run", preserved="the job runs on")
        reason = log.reason(request.images / argv.DUMP_LOG)
        raise CannotSave(
            f"CRIU could not write the job down: {reason}", preserved="the job runs on"
        )

    def restore_argv(self, images: Path, streams: Mapping[str, int]) -> list[str]:
        return argv.restore_argv(self.criu, images, streams)

    def restore_room(self, images: Path) -> int:
        # It reads every image but the pages into its own memory first, and what stood unread in
        # sockets (sk-queues.img) stays there while it is sent anew.
        return sum(
            image.stat().st_size
            for image in images.glob("*.img")
            if not image.name.startswith("pages-")
        )

    def restore_error(self, images: Path) -> str:
        return log.reason(images / argv.RESTORE_LOG)

    def fingerprint(self) -> Fingerprint:
        system = os.uname()
        return Fingerprint(
            architecture=system.machine,
            kernel=system.release,
            engine=f"criu {self.version}",
            cpu_features=self._cpu_features(),
        )


def _network_lock() -> argv.Locking:
    return "iptables" if shutil.which("iptables", path="/usr/sbin:/sbin") else "nftables"
