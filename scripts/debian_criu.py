"""Fetches CRIU from Debian unstable into its private prefix, for scripts/setup_criu.py.

Debian's packages are unpacked, with the libraries that they were built with, and nothing of the
system changes. apt checks the signature with the installed Debian keyring.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.vm.mirror import debian_mirror

from outgrow.engines.criu.find import private_prefix

DEFAULT_MIRROR = "https://deb.debian.org/debian"
SUITE = "unstable"
KEYRINGS = [Path(f"/usr/share/keyrings/debian-archive-keyring.{kind}") for kind in ("gpg", "pgp")]
APT_LIMIT = 300.0
AS_ROOT = Path(__file__).with_name("as_root.sh")


class NoWay(Exception):
    """There is no CRIU to be had; the message says why."""


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
            say("installing debian-archive-keyring as root with apt-get: it checks what is fetched")
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
        "APT::Update::Error-Mode": "any",  # or a host without network gets a riddle for an error
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
        raise NoWay(f"{argv[0]} failed ({run.returncode}): {' / '.join(said).rstrip('.')}")


def say(text: str) -> None:
    print(f"outgrow: {text}", file=sys.stderr, flush=True)
