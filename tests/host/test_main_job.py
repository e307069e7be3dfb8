"""A job outgrows its memory, and nobody can tell from its output."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.host.kit import MOVE, Outgrow, grow, python


def test_a_job_that_outgrows_its_limit_several_times_ends_with_the_right_answer(
    outgrow: Outgrow,
) -> None:
    done = outgrow(
        "run", "--memory", "64MiB", "--max-memory", "1GiB", *MOVE, "--name", "grower", "--",
        *grow(280, 2),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")
    story = outgrow.story("grower")
    assert (story["state"], story["exit_status"], story["work_lost_seconds"]) == ("ended", 0, 0)
    assert len(story["incarnations"]) >= 4
    for incarnation in story["incarnations"]:
        assert 0 < incarnation["peak_bytes"] <= incarnation["limit_bytes"]
        assert incarnation["ended"] is not None
    limits = [incarnation["limit_bytes"] for incarnation in story["incarnations"]]
    assert limits == sorted(limits)


def test_every_move_gives_the_memory_back_and_records_it(outgrow: Outgrow) -> None:
    done = outgrow("run", "--memory", "128MiB", *MOVE, "--name", "j", "--", *grow(150))
    assert done.returncode == 0
    (save,) = outgrow.story("j")["saves"]
    assert save["outcome"] == "moved"
    assert save["usage_bytes"] >= 90 << 20
    assert save["released_bytes"] >= 0.97 * save["usage_bytes"]
    assert save["bytes"] >= 80 << 20
    for phase in ("freeze", "dump", "commit", "release", "resume", "paused"):
        assert save[f"{phase}_seconds"] > 0


def test_a_pipeline_inside_the_job_keeps_its_status_and_its_output(outgrow: Outgrow) -> None:
    script = f"{' '.join(grow(260))} | tee out.txt; exit 7"
    done = outgrow("run", "--memory", "100MiB", *MOVE, "--", "bash", "-c", script)
    assert (done.returncode, done.stdout) == (7, "OK\n")
    assert (outgrow.directory / "out.txt").read_text() == "OK\n"


def test_many_processes_that_grow_at_once_are_moved_together(outgrow: Outgrow) -> None:
    program = """
import multiprocessing, os
def work(seed):
    blocks = [os.urandom(1 << 20) for _ in range(12)]
    return sum(len(block) for block in blocks) >> 20
if __name__ == "__main__":
    with multiprocessing.Pool(8) as pool:
        print(sum(pool.map(work, range(8), chunksize=1)))
"""
    done = outgrow("run", "--memory", "96MiB", *MOVE, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "96\n"), done.stderr
    assert len(outgrow.story("j")["incarnations"]) >= 2


@pytest.mark.parametrize("then_grow", [False, True], ids=["stream", "stream-then-grow"])
def test_page_cache_is_not_growth(outgrow: Outgrow, tmp_path: Path, then_grow: bool) -> None:
    """A file of many times the limit, in no cache, is streamed without a move; what the job takes
    for itself afterwards is still caught."""
    file, expected = _big_file(tmp_path, 500)
    program = """
import hashlib, sys, os
sum = hashlib.sha256()
while piece := sys.stdin.buffer.read(1 << 20):
    sum.update(piece)
print(sum.hexdigest())
blocks = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]
print(len(blocks))
"""
    mib = 150 if then_grow else 0
    with file.open("rb") as stream:
        done = outgrow(
            "run", "--memory", "96MiB", *MOVE, "--name", "j", "--", *python(program, str(mib)),
            stdin=stream,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{expected}\n{mib}\n")
    story = outgrow.story("j")
    assert (len(story["incarnations"]) > 1) == then_grow
    if then_grow:
        assert all(save["usage_bytes"] for save in story["saves"])


def test_a_job_that_writes_more_than_its_limit_is_not_moved(outgrow: Outgrow) -> None:
    """Dirty pages hold it up, and are written while it stands still."""
    program = """
import os
block = os.urandom(1 << 20)
with open("written", "wb") as file:
    for _ in range(400):
        file.write(block)
print(os.path.getsize("written") >> 20)
"""
    done = outgrow("run", "--memory", "96MiB", *MOVE, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "400\n")
    assert len(outgrow.story("j")["incarnations"]) == 1


def test_memory_in_child_cgroups_of_the_job_counts(outgrow: Outgrow) -> None:
    script = f"""
own=$(awk -F: '$2 ~ /memory/ {{ print $3 }}' /proc/self/cgroup)
mkdir "/sys/fs/cgroup/memory$own/child"
echo $$ > "/sys/fs/cgroup/memory$own/child/cgroup.procs"
exec {" ".join(grow(200))}
"""
    if not Path("/sys/fs/cgroup/memory").exists():
        pytest.skip("cgroup v1 alone: tests/vm has the same for v2")
    done = outgrow("run", "--memory", "100MiB", *MOVE, "--name", "j", "--", "bash", "-c", script)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert len(outgrow.story("j")["incarnations"]) >= 2


def test_without_a_limit_it_runs_as_it_is(outgrow: Outgrow) -> None:
    done = outgrow("run", "--name", "free", "--", *grow(40, 0.2))
    assert (done.returncode, done.stdout) == (0, "OK\n")
    (incarnation,) = outgrow.story("free")["incarnations"]
    assert incarnation["limit_bytes"] is None


def _big_file(folder: Path, mib: int) -> tuple[Path, str]:
    path = folder / "big"
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for index in range(mib):
            block = hashlib.sha256(str(index).encode()).digest() * (1 << 15)
            digest.update(block)
            file.write(block)
    # dd, because the standard library cannot drop a file's cache on every kernel's own terms.
    subprocess.run(
        ["dd", f"of={path}", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"],
        check=True,
        timeout=60,
    )
    return path, digest.hexdigest()
