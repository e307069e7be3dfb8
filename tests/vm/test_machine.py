"""The virtual machine itself: that it is what the other tests of this tier take it for."""

import hashlib

import pytest

from .machine import Machine, Outcome, Result, Script, _emulate, parse

JOB = """
import hashlib, os, socket, time

server = socket.create_server(("127.0.0.1", 0))
here = socket.create_connection(server.getsockname())
there, _ = server.accept()
digest = b""
for step in range(200):
    here.sendall(hashlib.sha256(digest + bytes([step])).digest())
    digest = there.recv(32, socket.MSG_WAITALL)
    if step == 100:
        open("/tmp/job/half", "w").close()
        while not os.path.exists("/tmp/job/go"):
            time.sleep(0.05)
with open("/tmp/job/answer", "w") as answer:
    answer.write(f"{os.getuid()} {digest.hex()}")
"""
"""Half way it waits to be moved; its answer goes through memory and a TCP connection."""

SAVE = f"""
set -ex
mkdir -p /tmp/job /data/images
cat > /tmp/job/job.py <<'END'
{JOB}
END
chown -R alice: /tmp/job

unshare --pid --mount --fork --mount-proc bash -c '
    echo 300 > /proc/sys/kernel/ns_last_pid
    setsid setpriv --reuid=alice --regid=alice --init-groups \\
        python3 /tmp/job/job.py </dev/null >/tmp/job/output 2>&1 &
    echo $! > /tmp/job/pid
    sleep 1000' </dev/null >/dev/null 2>&1 &
until [ -e /tmp/job/half ]; do sleep 0.1; done
init=$(pgrep -P $(pgrep -n unshare))
nsenter --target $init --pid --mount \\
    criu dump --tree $(cat /tmp/job/pid) --images-dir /data/images --tcp-established \\
    --manage-cgroups=ignore -v4 -o dump.log || {{ grep Error /data/images/dump.log; exit 1; }}
! pgrep -f job.py
kill -KILL $init
"""
"""PID 1 outlives the job: were it to end first, it would take CRIU with it in the middle of its
work."""

RESUME = """
set -ex
touch /tmp/job/go
unshare --pid --mount --fork --mount-proc \\
    criu restore --images-dir /data/images --tcp-established --manage-cgroups=ignore
cat /tmp/job/output /tmp/job/answer
"""

CRASH = """
echo going
until grep -q '^State:.S' /proc/$PPID/status; do sleep 0.1; done  # what reads us sent it on
echo c > /proc/sysrq-trigger
sleep 30
"""

SCRIPTS: dict[str, str | Script] = {
    "cgroup": "stat -f -c %T /sys/fs/cgroup; cat /sys/fs/cgroup/cgroup.subtree_control",
    "criu": "criu check",
    "dirty": "criu check --feature mem_dirty_track",
    "users": "runuser -u alice -- id; runuser -u bob -- id; stat -c %A /tmp",
    "disk": "findmnt -n -o FSTYPE /data; runuser -u alice -- sh -c 'echo > /data/x'",
    "outgrow": "PYTHONPATH=/opt/outgrow/site python3 -c 'import click, rich, msgspec, blake3' "
    "&& cat $(command -v outgrow) && ls /opt/outgrow/src/outgrow/__init__.py",
    "streams": "echo out; echo error >&2; exit 7",
    "signal": "kill -KILL $$",
    "late": Script("echo begun; (setsid sleep 1000 &); sleep 1000", timeout=2),
    "after late": "! pgrep sleep",
    "background": "yes & sleep 0.2",
    "after background": "(sleep 1000 &) >/dev/null 2>&1",
    "still there": "pkill sleep",
    "save": SAVE,
    "resume": RESUME,
    "crash": CRASH,
    "after crash": "true",
}


@pytest.fixture(scope="module")
def results(machine: Machine) -> dict[str, Result]:
    """One boot for all of them."""
    return machine.run_many(SCRIPTS, timeout=60)


def test_it_has_cgroup_v2_alone_with_its_controllers(results: dict[str, Result]) -> None:
    kind, controllers = results["cgroup"].check().splitlines()
    assert kind == "cgroup2fs"
    assert {"memory", "pids", "cpu"} <= set(controllers.split())


def test_criu_finds_all_that_it_needs(results: dict[str, Result]) -> None:
    assert results["criu"].check() == "Looks good.\n"


def test_soft_dirty_tracking_is_on(results: dict[str, Result]) -> None:
    results["dirty"].check()


def test_ordinary_users_exist(results: dict[str, Result]) -> None:
    alice, bob, tmp = results["users"].check().splitlines()
    assert alice.startswith("uid=1001(alice) gid=1001(alice)")
    assert bob.startswith("uid=1002(bob) gid=1002(bob)")
    assert tmp == "drwxrwxrwt"


def test_data_is_a_disk_of_roots(results: dict[str, Result]) -> None:
    assert results["disk"].output.startswith("ext4\n")
    assert results["disk"].status not in (0, None)
    assert "Permission denied" in results["disk"].output


def test_outgrow_and_its_packages_are_there(results: dict[str, Result]) -> None:
    assert "-m outgrow" in results["outgrow"].check()


def test_output_and_status_are_the_scripts_own(results: dict[str, Result]) -> None:
    assert (results["streams"].output, results["streams"].status) == ("out\nerror\n", 7)
    assert results["signal"].status == 128 + 9


def test_a_late_script_ends_with_all_it_started(results: dict[str, Result]) -> None:
    late = results["late"]
    assert (late.output, late.status, late.remark) == ("begun\n", None, "ran past its 2 s")
    results["after late"].check()


def test_a_job_of_an_ordinary_user_is_saved_and_resumed(results: dict[str, Result]) -> None:
    results["save"].check()
    assert results["resume"].check().splitlines()[-1] == f"1001 {_expected_answer()}"


def test_what_was_said_before_a_crash_is_kept(results: dict[str, Result]) -> None:
    crash = results["crash"]
    assert (crash.output, crash.status) == ("going\n", None)
    assert crash.remark.startswith("the machine stopped")
    assert "sysrq: Trigger a crash" in crash.console.read_text()
    assert results["after crash"].remark.startswith("not begun: the machine stopped")
    with pytest.raises(AssertionError, match="not begun"):
        results["after crash"].check()


def test_a_background_process_lives_on_and_holds_nothing_up(results: dict[str, Result]) -> None:
    assert results["background"].seconds < 30
    assert results["background"].output.startswith("y\n")
    results["after background"].check()
    results["still there"].check()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(b"", {}, id="nothing"),
        pytest.param(
            b"0 up 4\n5.251 out 3\na\nb1 out 1\nc1 end 7\n0 1.250",
            {0: Outcome(bytearray(b"5.25")), 1: Outcome(bytearray(b"a\nbc"), "0 1.250")},
            id="whole",
        ),
        pytest.param(b"1 out 9\nabc", {1: Outcome(bytearray(b"abc"))}, id="cut in output"),
        pytest.param(
            b"1 out 1\na1 end 7\n0 1.", {1: Outcome(bytearray(b"a"))}, id="cut in the end"
        ),
        pytest.param(b"1 out 1\na1 en", {1: Outcome(bytearray(b"a"))}, id="cut in a header"),
    ],
)
def test_frames_are_read_as_far_as_they_came(sent: bytes, expected: dict[int, Outcome]) -> None:
    assert parse(sent) == expected


def test_a_machine_that_hangs_is_ended() -> None:
    assert _emulate(["sleep", "60"], 0.1) == "the machine hung and was ended after 0.1 s"


def _expected_answer() -> str:
    digest = b""
    for step in range(200):
        digest = hashlib.sha256(digest + bytes([step])).digest()
    return digest.hex()
