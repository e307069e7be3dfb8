"""Has a CRIU that works here: `.venv/bin/python scripts/setup_criu.py [STAMP]`.

The one in use is taken if it saves and resumes a small process on this very kernel, and so is the
system's. Otherwise a newer one is fetched from Debian unstable into .venv/lib/outgrow-criu, with
the libraries that it was built with, so that nothing of the system changes. apt checks the
signature with the installed Debian keyring. STAMP is a file that says for what this was settled.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.vm.mirror import debian_mirror

from outgrow.engines.criu.find import VARIABLE, candidates, private_prefix

HELP = "docs/how-to/criu.md says how to get one by hand; `outgrow doctor` checks it"
DEFAULT_MIRROR = "https://deb.debian.org/debian"
SUITE = "unstable"
KEYRINGS = [Path(f"/usr/share/keyrings/debian-archive-keyring.{kind}") for kind in ("gpg", "pgp")]
TRIAL_LIMIT = 120.0
APT_LIMIT = 300.0
AS_ROOT = Path(__file__).with_name("as_root.sh")


class NoWay(Exception):
    """There is no CRIU to be had; the message says why."""


def main() -> int:
    stamp = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if stamp and stamp.is_file() and stamp.read_text() == key():
        return 0
    lacks = settle()
    if lacks:
        say(f"jobs can be saved here, but not their {', '.join(lacks)}. {HELP}")
    if stamp:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(key())
    return 0


def settle() -> list[str]:
    """Have the best CRIU there is in the place where outgrow looks first; what it cannot save."""
    tried = {}
    for criu in candidates():
        tried[criu] = attempt(criu)
        if not tried[criu]:
            choose(criu)
            return []
    try:
        if os.environ.get(VARIABLE):
            raise NoWay(f"{VARIABLE} names one that does not work here")
        lacks = attempt(fetch())
        if "processes" in lacks:
            raise NoWay(f"Debian's newest does not work here either: {lacks['processes']}")
        return list(lacks)
    except NoWay as reason:
        for criu, lacks in tried.items():
            if "processes" not in lacks:
                say(f"no better CRIU than {criu}: {reason}")
                choose(criu)
                return list(lacks)
        raise


def attempt(criu: str) -> dict[str, str]:
    """What a CRIU cannot save and resume here, with the reasons; says so."""
    argv = [str(AS_ROOT), sys.executable, "-m", "outgrow.agent.examination", criu]
    try:
        run = subprocess.run(
            argv, stdout=subprocess.PIPE, timeout=TRIAL_LIMIT, text=True, check=False
        )
        report = json.loads(run.stdout)
    except subprocess.TimeoutExpired:
        return {"processes": f"it hung for {TRIAL_LIMIT:.0f} s"}
    except ValueError:
        raise CannotTry("the trial said nothing") from None
    if not report["tried"]:
        raise CannotTry(report["why"])
    lacks = {kind: reason for kind, reason in report["survived"].items() if reason}
    if "processes" in lacks:  # then the others only repeat it
        lacks = {"processes": lacks["processes"]}
    if not lacks:
        say(f"{criu} {report['version']} saves and resumes processes here")
    for kind, reason in lacks.items():
        say(f"{criu} {report['version']} does not save {kind} here: {reason}")
    return lacks


class CannotTry(Exception):
    """Nothing can be saved on this host, whatever the CRIU."""


def choose(criu: str) -> None:
    """A private CRIU that does worse than the system's would stand in its way."""
    private = private_prefix()
    if private.is_dir() and not os.environ.get(VARIABLE) and Path(criu).parent != private:
        shutil.rmtree(private)


def fetch() -> str:
    """Put Debian's newest CRIU into the private prefix. Raises NoWay."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoWay(f"it is fetched with {tool}, which is not here")
    mirror = debian_mirror(suite=SUITE) or DEFAULT_MIRROR
    say(f"fetching a CRIU from Debian {SUITE} into {private_prefix()} (some 8 MB)")
    private_prefix().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=private_prefix().parent, prefix=".outgrow-criu-") as room:
        packages = download(Path(room), mirror, keyring())
        built = Path(room) / "built"
        built.mkdir()
        for package in packages:
            step("dpkg-deb", "--extract", str(package), str(built / "tree"))
        prune(built / "tree")
        wrapper(built)
        replace(built, private_prefix())
    return str(private_prefix() / "criu")


def keyring() -> Path:
    """Debian's keyring, installed where it is not there. Raises NoWay."""
    for attempted in (False, True):
        for path in KEYRINGS:
            if path.is_file():
                return path
        if not attempted:
            say("installing debian-archive-keyring with apt-get: what is fetched is checked by it")
            apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
            step(str(AS_ROOT), *apt, "update")
            step(str(AS_ROOT), *apt, "install", "--yes", "debian-archive-keyring")
    raise NoWay("the package debian-archive-keyring has no keyring where one was expected")


def download(room: Path, mirror: str, keys: Path) -> list[Path]:
    """CRIU's package and all that it depends on, by an apt whose state is all in `room`."""
    for folder in ("lists/partial", "archives/partial"):
        (room / folder).mkdir(parents=True)
    sources, status = room / "sources.list", room / "status"
    sources.write_text(f"deb [signed-by={keys}] {mirror} {SUITE} main\n")
    status.touch()  # apt keeps its lock beside it; /dev/null would put that into /dev
    options = {
        "Dir::State": room,
        "Dir::State::Lists": room / "lists",
        "Dir::State::Status": status,
        "Dir::Cache": room,
        "Dir::Cache::Archives": room / "archives",
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "APT::Sandbox::User": "root",  # its own user may not be able to write here
        "Acquire::Retries": 2,
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    step(*apt, "update")
    step(*apt, "install", "--yes", "--download-only", "--no-install-recommends", "criu")
    packages = sorted((room / "archives").glob("*.deb"))
    if not packages:
        raise NoWay(f"{mirror} has no CRIU for this architecture")
    return packages


def prune(tree: Path) -> None:
    """Keep the program, the libraries, and the licences that they come under."""
    for entry in (tree / "usr/share").iterdir() if (tree / "usr/share").is_dir() else ():
        if entry.name != "doc":
            shutil.rmtree(entry)
    (tree / "usr/lib/criu").mkdir(exist_ok=True)  # of plugins, whether the package has some or not
    for conversions in tree.glob("usr/lib/*/gconv"):
        shutil.rmtree(conversions)


def wrapper(built: Path) -> None:
    """A program that starts CRIU with the C library that it was built for."""
    loaders = sorted(built.glob("tree/usr/lib/*/ld-linux*.so.*"))
    if not loaders:
        raise NoWay("the downloaded C library has no program loader where one was expected")
    loader = loaders[0]
    tree = private_prefix() / "tree"
    place = {
        "loader": tree / loader.relative_to(built / "tree"),
        "libraries": (tree / loader.relative_to(built / "tree")).parent,
        "plugins": tree / "usr/lib/criu",
        "criu": tree / "usr/sbin/criu",
    }
    quoted = {name: shlex.quote(str(path)) for name, path in place.items()}
    script = built / "criu"
    script.write_text(
        "#!/bin/sh\n"
        "# CRIU with its own C library: made by scripts/setup_criu.py.\n"
        "CRIU_LIBS_DIR={plugins}\n"
        "export CRIU_LIBS_DIR\n"
        'exec {loader} --library-path {libraries} {criu} "$@"\n'.format(**quoted)
    )
    script.chmod(0o755)


def replace(built: Path, place: Path) -> None:
    """Put a finished folder in the place of another, which goes."""
    built.chmod(0o755)
    if place.exists():
        place.rename(built.with_name("old"))
    built.rename(place)


def step(*argv: str) -> None:
    """Run a program. Raises NoWay with what it said last."""
    try:
        run = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=APT_LIMIT,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoWay(str(error)) from None
    if run.returncode:
        said = [line for line in run.stdout.splitlines() if line.strip()][-3:]
        raise NoWay(f"{argv[0]} failed ({run.returncode}): {' / '.join(said)}")


def key() -> str:
    """Names this kernel and what a trial of a CRIU on it depends on."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(
        f"{os.uname().release} {shutil.which('iptables', path='/usr/sbin:/sbin')}".encode()
    )
    for criu in candidates():
        digest.update(criu.encode())
        try:
            digest.update(Path(criu).read_bytes())
        except OSError as error:
            digest.update(str(error.errno).encode())
    return digest.hexdigest()


def say(text: str) -> None:
    print(f"outgrow: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoWay as reason:
        say(f"there is no CRIU that works here: {reason}. {HELP}")
        sys.exit(1)
    except CannotTry as reason:
        say(f"no CRIU was looked for, because none can be tried here: {reason}")
        sys.exit(0)
