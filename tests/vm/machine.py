"""Boots the machine, runs scripts in it as root, and brings back what each said.

    machine = Machine(prepare(checkout), checkout, folder)
    result = machine.run("criu check")
    results = machine.run_many({"save": "outgrow …", "resume": Script("outgrow …", timeout=90)})

Every boot is a fresh machine: nothing that a script did is there at the next. In the machine:
cgroup v2 alone, with cpu, io, memory and pids handed down by the root; `outgrow`, run from the
checkout; `/opt/outgrow/examples`; the users alice (1001) and bob (1002); a fresh ext4 disk on
/data; everything else in memory, so that what a job writes elsewhere is charged to it as shmem.
"""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .base import Base
from .recipe import GUEST

BOOT_LIMIT = 60.0
"""Seconds that a boot may take beside its scripts; it takes about 5 on an idle host."""

_CONSOLE_SHOWN = 2000  # characters


@dataclass(frozen=True)
class Script:
    """Text for bash, run as root in /root without a terminal, and the seconds it may take."""

    text: str
    timeout: float = 60.0


@dataclass(frozen=True)
class Result:
    """What a script did."""

    output: str
    """Its standard output and error as they came; the kernel's messages are not in it."""

    status: int | None
    """Its exit status (128 + N when signal N ended it), or None when it did not come to its
    end."""

    seconds: float
    """How long it ran, by the machine's clock."""

    remark: str
    """Why it did not come to its end; empty when it did."""

    console: Path
    """The log of the machine's console: kernel and init, for diagnosis."""

    def check(self) -> str:
        """The output of a script that ended with status 0.

        Raises:
            AssertionError: for any other, with its output and the end of the console's log.
        """
        if self.status == 0:
            return self.output
        what = self.remark or f"exit status {self.status}"
        said = self.console.read_text(errors="replace")[-_CONSOLE_SHOWN:]
        raise AssertionError(f"{what}\n{self.output}\n--- {self.console}\n{said}")


@dataclass(frozen=True)
class Machine:
    """Boots of one base, with the code of one checkout as it is at each boot."""

    base: Base
    checkout: Path

    folder: Path
    """Where each boot gets a folder of its own; only its console's log is left there."""

    memory_mib: int = 3072
    cpus: int = 1

    disk_mib: int = 4096
    """Size of the disk on /data; a sparse file, so it takes what is written to it."""

    files: Mapping[str, Path] = field(default_factory=dict)
    """Further files or folders for the machine: absolute path there → path here."""

    def run(self, script: str, timeout: float = 60.0) -> Result:
        """Boot, run one script, and end the machine."""
        return self.run_many({"script": Script(script, timeout)})["script"]

    def run_many(
        self, scripts: Mapping[str, str | Script], timeout: float = 60.0
    ) -> dict[str, Result]:
        """Boot once and run the scripts one after another, in the mapping's order.

        One that fails does not stop the next; what it left running in the background lives on,
        with its output closed. Each is killed, with every process started since
        it began, when its own time is over (`timeout` for those given as plain text), and what
        it had said is returned. So it is when the machine itself stops or hangs: it is ended
        then, and the scripts that it did not come to are returned as such.
        """
        plan = [s if isinstance(s, Script) else Script(s, timeout) for s in scripts.values()]
        self.folder.mkdir(parents=True, exist_ok=True)
        boot = Path(tempfile.mkdtemp(prefix="boot-", dir=self.folder))
        console, sent, disk = boot / "console.log", boot / "results", boot / "data.img"
        console.touch()
        sent.touch()
        try:
            overlay = self._overlay(boot, plan)
            _make_disk(disk, self.disk_mib)
            limit = BOOT_LIMIT + sum(script.timeout for script in plan)
            stopped = _emulate(self._argv(console, sent, overlay, disk), limit)
            outcomes = parse(sent.read_bytes())
        finally:
            for entry in boot.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry != console:
                    entry.unlink()
        results = {}
        for number, (name, script) in enumerate(zip(scripts, plan, strict=True), start=1):
            results[name] = _result(outcomes.get(number), script, stopped, console)
        return results

    def _argv(self, console: Path, sent: Path, overlay: Path, disk: Path) -> list[str]:
        """Emulation alone, on purpose: where the tests are made there is no working KVM, and
        the same machine everywhere is worth more than a fast one somewhere."""
        return [
            "qemu-system-x86_64",
            *("-accel", "tcg,thread=single", "-cpu", "max"),
            *("-m", str(self.memory_mib), "-smp", str(self.cpus)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-serial", f"file:{console}"),
            *("-kernel", str(self.base.kernel), "-initrd", str(self.base.initramfs)),
            *("-append", "console=ttyS0 quiet panic=-1 oops=panic rdinit=/init"),
            *("-drive", f"file={overlay},format=raw,if=virtio,readonly=on"),
            *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
            *("-device", "virtio-serial-pci", "-chardev", f"file,id=results,path={sent}"),
            *("-device", "virtserialport,chardev=results,name=outgrow.results"),
        ]

    def _overlay(self, boot: Path, plan: list[Script]) -> Path:
        """What this boot adds to the base, as a tar that init unpacks over its root."""
        stage = boot / "stage"
        source = stage / "opt/outgrow/src"
        source.mkdir(parents=True)
        unwanted = shutil.ignore_patterns("__pycache__")
        for ours, theirs in (("src/outgrow", source / "outgrow"), ("examples", "examples")):
            if (self.checkout / ours).is_dir():
                target = stage / "opt/outgrow" / theirs
                shutil.copytree(self.checkout / ours, target, ignore=unwanted)
        self._compile(source)

        room = stage / "opt/outgrow/vm"
        room.mkdir()
        shutil.copy(GUEST / "runner.py", room)
        lines = [f"{number} {script.timeout}\n" for number, script in enumerate(plan, start=1)]
        (room / "plan").write_text("".join(lines))
        for number, script in enumerate(plan, start=1):
            (room / f"{number}.sh").write_text(script.text)
        tool = stage / "usr/local/bin/outgrow"
        tool.parent.mkdir(parents=True)
        shutil.copy(GUEST / "outgrow", tool)
        tool.chmod(0o755)
        for theirs, here in self.files.items():
            target = stage / theirs.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if here.is_dir():
                shutil.copytree(here, target, ignore=unwanted, dirs_exist_ok=True)
            else:
                shutil.copy(here, target)

        archive = boot / "overlay.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(stage, arcname=".", filter=_of_root)
        return archive

    def _compile(self, source: Path) -> None:
        """Compile outgrow with the guest's own Python, here: inside, under emulation, it would
        cost every start of every user's outgrow seconds."""
        inside = "/opt/outgrow/src"
        subprocess.run(
            [
                *("unshare", "--mount", "sh", "-c"),
                'mount --bind "$1" "$2$3" && exec chroot "$2" python3 -m compileall -q '
                '--invalidation-mode unchecked-hash "$3"',
                *("sh", str(source), str(self.base.tree), inside),
            ],
            check=False,  # a module that does not compile is for the tests to find
            timeout=60,
        )


@dataclass
class Outcome:
    """What the machine sent about one script."""

    output: bytearray = field(default_factory=bytearray)
    end: str = ""
    """`STATUS SECONDS` or `late SECONDS`; empty while it runs."""


def parse(sent: bytes) -> dict[int, Outcome]:
    """Read the frames that `guest/runner.py` sends; a last one cut short gives what there is.

    A script that was begun has an outcome; 0 is the machine itself, with the seconds its boot
    took as output.
    """
    outcomes: dict[int, Outcome] = {}
    place = 0
    while (line_end := sent.find(b"\n", place)) >= 0:
        number, kind, length = sent[place:line_end].decode().split()
        place = line_end + 1 + int(length)
        data = sent[line_end + 1 : place]
        outcome = outcomes.setdefault(int(number), Outcome())
        if kind in ("out", "up"):
            outcome.output += data
        elif kind == "end" and place <= len(sent):
            outcome.end = data.decode()
    return outcomes


def _result(outcome: Outcome | None, script: Script, stopped: str, console: Path) -> Result:
    if outcome is None:
        return Result("", None, 0.0, f"not begun: {stopped}", console)
    output = outcome.output.decode(errors="replace")
    if not outcome.end:
        return Result(output, None, 0.0, stopped, console)
    end, seconds = outcome.end.split()
    if end == "late":
        return Result(output, None, float(seconds), f"ran past its {script.timeout:g} s", console)
    return Result(output, int(end), float(seconds), "", console)


def _emulate(argv: list[str], limit: float) -> str:
    """Run qemu to its end or the limit; how it ended, in words for a script that it cut off."""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as qemu:
        try:
            said, _ = qemu.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return f"the machine hung and was ended after {limit:g} s"
        finally:
            qemu.kill()
    words = said.decode(errors="replace").strip()
    return f"the machine stopped (qemu: {qemu.returncode}) {words}".strip()


def _make_disk(disk: Path, mib: int) -> None:
    with disk.open("wb") as image:
        image.truncate(mib * 1024 * 1024)
    subprocess.run(
        ["/usr/sbin/mkfs.ext4", "-q", "-F", "-E", "nodiscard", str(disk)],
        check=True,
        timeout=60,
    )


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """As an installation would own it, whatever the checkout's owner and umask are."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
