"""What is done to the programs, and whether they notice: for the tests and `benchmarks/zoo.py`."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.host.kit import MOVE, Outgrow, kill_the_job, running, wait_until
from tests.zoo.terminal import Typist
from tests.zoo.zoo import PROGRAMS, Case, Program

LONGEST = 150.0
FINE = (0, 5)
"""The statuses with which they end when nobody disturbs them."""

Start = Callable[[int, int], "subprocess.Popen[bytes]"]
"""Starts a process with this standard input and output, and its errors in a pipe."""


def seed() -> int:
    """Of the random instants: `OUTGROW_ZOO_SEED`, or another one each time."""
    return int(os.environ.get("OUTGROW_ZOO_SEED") or random.SystemRandom().randrange(10**6))


@dataclass
class Zoo:
    """The programs, run by one user with the same seed. `play` raises AssertionError when a
    program notices what was done to it."""

    folder: Path
    """For what they do undisturbed."""

    seed: int

    user: str = ""
    """Whose jobs they are; root's without."""

    _answers: dict[str, tuple[str, float]] = field(default_factory=dict)

    def play(self, outgrow: Outgrow, program: Program, case: Case) -> None:
        """One case with one program, which is outgrow's job `j`."""
        program = program.for_case(case)
        expected, seconds = self.undisturbed(program)
        if self.user:
            shutil.chown(outgrow.directory, self.user)
        turn = _Turn(outgrow, program, self.user, expected, seconds)
        chance = random.Random(f"{self.seed} {program.name} {case}")
        if case is Case.OVER:
            turn.over(chance)
        elif case is Case.KILLED:
            turn.killed(chance)
        else:
            turn.moved(chance, case.moves)

    def undisturbed(self, program: Program) -> tuple[str, float]:
        """What it says when nobody disturbs it, and how many seconds that takes."""
        if program.name not in self._answers:
            folder = self.folder / program.name
            folder.mkdir()
            if self.user:
                shutil.chown(folder, self.user)

            def start(stdin: int, stdout: int) -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    program.command,
                    cwd=folder,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    user=self.user or None,
                )

            began = time.monotonic()
            with _attended(program, folder, start) as attended:
                answer = attended.answer()
            self._answers[program.name] = answer, time.monotonic() - began
        return self._answers[program.name]


@dataclass
class _Turn:
    """One program under outgrow."""

    outgrow: Outgrow
    program: Program
    user: str
    expected: str
    seconds: float

    def moved(self, chance: random.Random, times: int) -> None:
        """At instants of its own time, early enough that it still runs at the last: for each
        move it also runs while that one is asked for."""
        longest = 0.6 - 0.02 * times
        instants = sorted(chance.uniform(0.05, longest) * self.seconds for _ in range(times))
        size, unit = int(self.program.roomy[:-3]), self.program.roomy[-3:]
        with self._started("--memory", self.program.roomy) as attended:
            self.outgrow.wait_for("j", "running")
            moved, last = 0, 0.0
            for number, instant in enumerate(instants, start=1):
                time.sleep(instant - last)
                last = instant
                done = self.outgrow("move", "j", "--memory", f"{size + number}{unit}")
                if attended.process.poll() is not None or "ended" in done.stderr:
                    break
                assert done.returncode == 0, done.stderr
                moved += 1
            attended.check(self.expected)
        assert moved >= (times + 1) // 2, f"only {moved} moves: {self.seconds:.1f} s are too short"

    def over(self, chance: random.Random) -> None:
        """It grows into its limits and is moved past each; or what runs beside it does."""
        limit, command = self.program.limit, self.program.command
        if self.program.pushed:
            size = limit.removesuffix("MiB")
            instant = f"{chance.uniform(0.05, 0.5) * self.seconds:.3f}"
            command = (sys.executable, str(PROGRAMS / "push.py"), instant, size, *command)
        sizes = ("--memory", limit, "--next-size", self.program.next_size)
        words = (*sizes, "--band", "8MiB", *MOVE)
        with self._started(*words, command=command) as attended:
            attended.check(self.expected)
        outcomes = {save["outcome"] for save in self.outgrow.story("j")["saves"]}
        assert {"moved"} <= outcomes <= {"moved", "thawed"}, outcomes

    def killed(self, chance: random.Random) -> None:
        """Some time after its first save, and then resumed from its last."""
        words = ("--memory", self.program.roomy, "--save-every", "400ms")
        with self._started(*words) as attended:
            process = attended.process
            self.outgrow.wait_for("j", "running", "frozen", "saving", "saved")
            wait_until(lambda: process.poll() is not None or self._is_saved())
            time.sleep(chance.uniform(0, 0.3) * self.seconds)
            kill_the_job(self.outgrow)
            process.wait(LONGEST)
        assert process.returncode not in FINE, f"{self.seconds:.1f} s are too short to kill it"

        def start(stdin: int, stdout: int) -> subprocess.Popen[bytes]:
            return self.outgrow.start("resume", "j", stdin=stdin, stdout=stdout)

        with _attended(self.program, self.outgrow.directory, start, resumed=True) as attended:
            attended.check(self.expected)

    def _started(
        self, *words: str, command: tuple[str, ...] = ()
    ) -> AbstractContextManager[_Attended]:
        whose = ("--user", self.user) if self.user else ()
        run = ("run", "--name", "j", *whose, *words, "--", *(command or self.program.command))

        def start(stdin: int, stdout: int) -> subprocess.Popen[bytes]:
            return self.outgrow.start(*run, stdin=stdin, stdout=stdout)

        return _attended(self.program, self.outgrow.directory, start)

    def _is_saved(self) -> bool:
        return any(save["outcome"] == "saved" for save in self.outgrow.story("j")["saves"])


@dataclass
class _Attended:
    """A process whose output goes where somebody looks: into a file, as that of a batch job, or to
    a terminal at which somebody types."""

    process: subprocess.Popen[bytes]
    path: Path
    typist: Typist | None
    resumed: bool

    def answer(self) -> str:
        """All that it has said at its end; raises AssertionError when that was not a good one."""
        said = self.typist.finish(self.process) if self.typist else ""
        _, err = self.process.communicate(timeout=LONGEST if not self.typist else 10)
        why = f"status {self.process.returncode}: {said}{err.decode()}"
        assert self.process.returncode in FINE, why
        return said if self.typist else self.path.read_text()

    def check(self, expected: str) -> None:
        """That the answer is this. What a terminal showed before is not shown to one who comes
        later: she sees the last line."""
        found = self.answer()
        if self.typist and self.resumed:
            found, expected = found.splitlines()[-1], expected.splitlines()[-1]
        assert found == expected, _difference(found, expected)


def _difference(found: str, expected: str) -> str:
    pairs = zip(found, expected, strict=False)
    same = min(len(found), len(expected))
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), same)
    shown = slice(max(0, place - 80), place + 200)
    return f"from character {place} on: {found[shown]!r}, not {expected[shown]!r}"


@contextmanager
def _attended(
    program: Program, folder: Path, start: Start, *, resumed: bool = False
) -> Iterator[_Attended]:
    path = folder / "answer"
    typist = Typist(program.dialogue, resumed=resumed) if program.dialogue else None
    try:
        with path.open("ab") as file:
            stdin = typist.stream if typist else subprocess.DEVNULL
            process = start(stdin, typist.stream if typist else file.fileno())
        with running(process):
            yield _Attended(process, path, typist, resumed)
    finally:
        if typist:
            typist.leave()
