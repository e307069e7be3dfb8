"""The main job on cgroup v2, as root and as an ordinary user."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .machine import Machine, Result, Script

OUTGROW = "export OUTGROW_STATE_DIR=/data/state\n"
GROW = "python3 /opt/outgrow/examples/grow.py"

STREAM = """
import hashlib, os, sys
digest = hashlib.sha256()
while piece := sys.stdin.buffer.read(1 << 20):
    digest.update(piece)
blocks = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]
print(digest.hexdigest(), len(blocks))
"""

KILLED = f"""
{OUTGROW}
( OUTGROW_FAULT=kill@frozen setsid outgrow run --memory 100MiB --on-limit move --name killed -- \\
    {GROW} 85 --seconds 2 >/data/killed.out 2>&1; echo "status $?" ) 2>/dev/null
path=$(echo /sys/fs/cgroup/outgrow/*-1)
for i in $(seq 40); do [ "$(cat $path/cgroup.freeze)" = 0 ] && break; sleep 0.1; done
echo "frozen $(cat $path/cgroup.freeze) high $(cat $path/memory.high)"
for i in $(seq 300); do [ -e $path ] || break; sleep 0.1; done
cat /data/killed.out
outgrow show killed --json
"""

SCRIPTS = {
    "doctor": Script(f"{OUTGROW} outgrow doctor --json", timeout=120),
    "grower": Script(
        f"{OUTGROW} outgrow run --memory 100MiB --max-memory 1GiB --on-limit move --name grower"
        f" -- {GROW} 260 --seconds 2; echo status $?; outgrow show grower --json",
        timeout=180,
    ),
    "alice": Script(
        f"{OUTGROW} mkdir -p /data/alice; chown alice: /data/alice; cd /data/alice;"
        " outgrow run --user alice --memory 100MiB --on-limit move --name alices -- bash -c"
        f" 'id -un; id -un > who; {GROW} 180 --seconds 2; umask; touch made; exit 4';"
        " echo status $?; stat -c %U who made; outgrow show alices --json",
        timeout=180,
    ),
    "grow": Script(
        f"{OUTGROW} outgrow run --memory 100MiB --name grow -- {GROW} 180 --seconds 1;"
        " echo status $?; outgrow show grow --json",
        timeout=120,
    ),
    "leave": Script(
        f"{OUTGROW} outgrow run --memory 100MiB --on-limit leave --name leave -- {GROW} 180;"
        " echo status $?; outgrow show leave --json",
        timeout=120,
    ),
    "keep": Script(
        f"{OUTGROW} outgrow run --memory 64MiB --max-memory 80MiB --on-limit move --name keep"
        f" -- {GROW} 120 --seconds 1 >/data/keep.out; echo status $?;"
        " outgrow resume keep --memory 300MiB; echo status $?; cat /data/keep.out;"
        " outgrow show keep --json",
        timeout=180,
    ),
    "stream": Script(
        f"{OUTGROW} cat >/data/stream.py <<'END'\n{STREAM}\nEND\n"
        "for i in $(seq 40); do head -c 10000000 /dev/urandom; done >/data/big; sync;"
        " echo 3 >/proc/sys/vm/drop_caches; sha256sum </data/big;"
        " echo 3 >/proc/sys/vm/drop_caches;"
        " outgrow run --memory 128MiB --on-limit move --name stream -- "
        "python3 /data/stream.py 0 </data/big; echo status $?; outgrow show stream --json",
        timeout=240,
    ),
    "stream-then-grow": Script(
        f"{OUTGROW} echo 3 >/proc/sys/vm/drop_caches; sha256sum </data/big;"
        " outgrow run --memory 128MiB --on-limit move --name caught -- "
        "python3 /data/stream.py 150 </data/big; echo status $?; outgrow show caught --json",
        timeout=240,
    ),
    "child": Script(
        f"{OUTGROW} outgrow run --memory 100MiB --on-limit move --name child -- bash -c '"
        'own=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); mkdir "$own/child"; '
        f'echo $$ > "$own/child/cgroup.procs"; exec {GROW} 150 --seconds 1\';'
        " echo status $?; outgrow show child --json",
        timeout=180,
    ),
    "killed": Script(KILLED, timeout=180),
    "stopped": Script(
        f"{OUTGROW} cd /data; (outgrow run --memory 100MiB --name stopped -- python3 -c '"
        'import os; open("on", "w"); os.kill(os.getpid(), 19); print("went on")\' >out &);'
        " until [ -e on ]; do sleep 0.2; done; sleep 1;"
        " outgrow move stopped --memory 120MiB; sleep 1;"
        " kill -CONT $(cat /sys/fs/cgroup/outgrow/*-2/cgroup.procs);"
        " for i in $(seq 50); do grep -q went out && break; sleep 0.1; done; cat out",
        timeout=90,
    ),
    "left": Script("find /sys/fs/cgroup/outgrow -mindepth 1 -type d", timeout=20),
}


@pytest.fixture(scope="module")
def results(machine: Machine) -> dict[str, Result]:
    """All of it in one boot: a boot costs seconds, and nothing here disturbs the next."""
    return machine.run_many(SCRIPTS)


def _story(result: Result) -> tuple[list[str], dict[str, Any]]:
    output = result.check()
    text, brace, story = output.partition("{\n")
    return text.splitlines(), json.loads(brace + story)


def test_doctor_finds_that_the_main_job_can_run(results: dict[str, Result]) -> None:
    report = json.loads(results["doctor"].check())
    assert report["main_job"] is True


def test_a_job_that_outgrows_its_limit(results: dict[str, Result]) -> None:
    lines, story = _story(results["grower"])
    assert lines == ["OK", "status 0"]
    assert (story["state"], story["exit_status"], story["work_lost_seconds"]) == ("ended", 0, 0)
    assert len(story["incarnations"]) >= 3
    for incarnation in story["incarnations"]:
        assert 0 < incarnation["peak_bytes"] <= incarnation["limit_bytes"]
    for save in story["saves"]:
        assert save["released_bytes"] >= 0.9 * save["usage_bytes"]


def test_an_ordinary_users_job(results: dict[str, Result]) -> None:
    lines, story = _story(results["alice"])
    assert lines == ["alice", "OK", "0022", "status 4", "alice", "alice"]
    assert len(story["incarnations"]) >= 2
    assert story["owner"] == 1001


def test_grow_in_place(results: dict[str, Result]) -> None:
    lines, story = _story(results["grow"])
    assert lines == ["OK", "status 0"]
    assert len(story["incarnations"]) == 1


def test_leave_it_to_the_kernel(results: dict[str, Result]) -> None:
    lines, story = _story(results["leave"])
    assert lines == ["status 137"]
    assert "kernel killed" in story["reason"]


def test_kept_at_the_cap_and_resumed_with_more(results: dict[str, Result]) -> None:
    lines, story = _story(results["keep"])
    assert [line for line in lines if not line.startswith("outgrow:")] == [
        "status 75",
        "status 0",
        "OK",
    ]
    assert story["state"] == "ended"


def test_page_cache_is_not_growth(results: dict[str, Result]) -> None:
    lines, story = _story(results["stream"])
    assert lines[1].split()[0] == lines[0].split()[0]
    assert lines[2] == "status 0"
    assert len(story["incarnations"]) == 1


def test_own_memory_after_page_cache_is_growth(results: dict[str, Result]) -> None:
    lines, story = _story(results["stream-then-grow"])
    assert lines[1].split() == [lines[0].split()[0], "150"]
    assert lines[2] == "status 0"
    assert len(story["incarnations"]) >= 2


def test_child_cgroups_count(results: dict[str, Result]) -> None:
    lines, story = _story(results["child"])
    assert lines == ["OK", "status 0"]
    assert len(story["incarnations"]) >= 2


def test_outgrow_is_killed_with_the_job_frozen(results: dict[str, Result]) -> None:
    lines, story = _story(results["killed"])
    assert lines == ["status 137", "frozen 0 high max", "OK"]
    assert (story["state"], story["exit_status"]) == ("ended", 0)


def test_a_stopped_job_is_moved_and_stays_stopped(results: dict[str, Result]) -> None:
    assert results["stopped"].check().splitlines() == [
        "stopped continues with 120 MiB",
        "went on",
    ]


def test_nothing_is_left(results: dict[str, Result]) -> None:
    assert results["left"].check() == ""
