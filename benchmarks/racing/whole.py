"""The whole product on one real job: `outgrow run --on-limit move`, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from frame import Row

from racing.cases import MIB, Case
from racing.guarded import LONGEST
from racing.jobs import command, expected, memory
from racing.place import Place
from racing.rows import new_row

_KILLED = 137
_OF_ORDINARY_PRIORITY = 'renice -n 0 -p $$ > /dev/null; exec "$0" "$@"'


def race(case: Case, place: Place) -> Row:
    """Run the case; its row. The state directory is on a tmpfs, so that the disk's speed, which is
    no part of the race, is left out."""
    row = new_row(case, place.version)
    place.warm(memory(case))
    state = place.small / "state"
    began = time.monotonic()
    run = [
        *("run", "--state-dir", str(state), "--name", "race", "--on-limit", "move"),
        *("--memory", f"{case.limit // MIB}MiB", "--max-memory", f"{8 * case.limit // MIB}MiB"),
        *("--", *command(case, place)),
    ]
    try:
        done = _outgrow(run)
        row["seconds"] = time.monotonic() - began
        story = json.loads(_outgrow(["show", "race", "--json", "--state-dir", str(state)]).stdout)
        _tell(row, case, story)
        row["killed"] = int(done.returncode == _KILLED or "the kernel killed" in story["reason"])
    finally:
        for words in (["kill", "race"], ["forget", "race", "--force"]):
            _outgrow([*words, "--state-dir", str(state)])
        subprocess.run(["rm", "-rf", str(state)], check=True)
    row["right"] = done.returncode == 0 and done.stdout == expected(case, place)
    row["note"] = done.stderr.strip().partition("\n")[0]
    place.clean()
    return row


def _tell(row: Row, case: Case, story: dict[str, Any]) -> None:
    outcomes = [save["outcome"] for save in story["saves"]]
    row["moves"] = outcomes.count("moved")
    row["held"] = outcomes.count("thawed")
    if case.grows:
        row["saved"] = bool(outcomes) and set(outcomes) <= {"moved"}
    else:
        row["false_alarm"] = bool(set(outcomes) - {"thawed"})
    saves = [save for save in story["saves"] if save["outcome"] != "thawed"]
    if saves:
        row["event_to_frozen_ms"] = max(save["freeze_seconds"] for save in saves) * 1e3
        row["paused_seconds"] = max(save["paused_seconds"] for save in saves)
    if saves and case.grows:
        first = story["incarnations"][0]
        row["overshoot_mib"] = (first["peak_bytes"] - case.mark) / MIB
        row["at_limit"] = first["peak_bytes"] >= case.limit


def _outgrow(words: list[str]) -> subprocess.CompletedProcess[str]:
    """As a user would: of ordinary priority, in a session of its own."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", _OF_ORDINARY_PRIORITY, sys.executable, "-m", "outgrow", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LONGEST)
    except BaseException:
        process.kill()  # the job runs on by itself then, and is ended by `outgrow kill`
        process.wait()
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
