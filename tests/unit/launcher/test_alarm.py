"""The kernel's word that a job is held up, for PID 1 to hear."""

from __future__ import annotations

import os
import select
from pathlib import Path

from outgrow.launcher.alarm import Alarm


def test_on_v1_an_eventfd_is_registered_for_it(tmp_path: Path) -> None:
    watched, control = tmp_path / "memory.oom_control", tmp_path / "cgroup.event_control"
    watched.write_text("under_oom 0\n")
    control.write_text("")
    alarm = Alarm(str(watched), str(control))
    event, file = control.read_text().split()
    assert int(event) == alarm.descriptor
    assert os.readlink(f"/proc/self/fd/{file}") == str(watched)
    assert alarm.mask == select.EPOLLIN

    poll = select.epoll()
    poll.register(alarm.descriptor, alarm.mask)
    assert poll.poll(0) == []
    os.eventfd_write(alarm.descriptor, 1)  # as the kernel does
    assert poll.poll(0) != []
    alarm.acknowledge()
    assert poll.poll(0) == []
    alarm.acknowledge()
    os.close(int(event))
    os.close(int(file))


def test_on_v2_the_file_itself_tells(tmp_path: Path) -> None:
    watched = tmp_path / "memory.events"
    watched.write_text("high 0\n")
    alarm = Alarm(str(watched), "")
    assert os.readlink(f"/proc/self/fd/{alarm.descriptor}") == str(watched)
    assert alarm.mask == select.EPOLLPRI
    alarm.acknowledge()
    watched.unlink()
    alarm.acknowledge()  # a cgroup that is gone is no error
    os.close(alarm.descriptor)
