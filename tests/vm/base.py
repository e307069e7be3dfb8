"""The machine's kernel and root tree: built once for a recipe, kept in the user's cache.

`python3 -m tests.vm.base` builds it, or says what is missing on this host; the tests' `machine`
fixture does the same by itself.
"""

import fcntl
import importlib.util
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .mirror import debian_mirror
from .recipe import GUEST, Recipe, recipe_for

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Wheels that run on the suite's libc (2.41), newest kind first."""

TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "debootstrap": "debootstrap",
    "cpio": "cpio",
    "mkfs.ext4": "e2fsprogs",
    "unshare": "util-linux",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}
"""What is run on the host, and the Debian package that has it."""

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_STEP_LIMIT = 900.0  # seconds; the longest step took 45 s on 2 cores


class CannotBuild(Exception):
    """This host cannot build or run the machine; the message says what to do about it."""


@dataclass(frozen=True)
class Base:
    """A finished build. Its files are never changed; a run adds what it needs beside them."""

    kernel: Path
    initramfs: Path

    tree: Path
    """The same root tree unpacked, for programs of the guest that are run on the host (fast)."""


def missing() -> str | None:
    """Why this host cannot run the machine, with the remedy, or None when it can."""
    if platform.machine() != "x86_64":
        return f"the virtual machine is x86_64, and this host is {platform.machine()}"
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    packages = {name for tool, name in TOOLS.items() if shutil.which(tool, path=path) is None}
    if not KEYRING.is_file():
        packages.add("debian-archive-keyring")
    if packages:
        names = " ".join(sorted(packages))
        return f"the virtual machine needs: apt-get install --no-install-recommends -y {names}"
    if os.geteuid() != 0:
        return "the virtual machine is built with debootstrap, which needs root: run as root"
    if importlib.util.find_spec("pip") is None:
        return f"the virtual machine's Python packages come by pip: {sys.executable} -m ensurepip"
    return None


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "outgrow" / "vm"


def prepare(checkout: Path) -> Base:
    """The base for a checkout, built when the cache has none for its recipe.

    A build appears under its final name only when it is whole, and takes the place of all
    builds of other recipes. Two callers at once build once.

    Raises:
        CannotBuild: with what is missing, or with the end of the log of the step that failed.
    """
    if reason := missing():
        raise CannotBuild(reason)
    recipe = recipe_for(checkout)
    root = cache_root()
    folder = root / recipe.key()
    base = Base(folder / "vmlinuz", folder / "tree.cpio", folder / "tree")
    if folder.is_dir():
        return base
    root.mkdir(parents=True, exist_ok=True)
    with _one_builder(root):
        if folder.is_dir():
            return base
        for old in root.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        building = Path(tempfile.mkdtemp(prefix="building-", dir=root))
        try:
            _Build(recipe, building).all()
            building.chmod(0o755)
            building.rename(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return base


class _Build:
    """The steps of one build, in order, inside a folder of their own."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe = recipe
        self.folder = folder
        self.tree = folder / "tree"
        self.log = folder / "build.log"
        self.started = time.monotonic()

    def all(self) -> None:
        self.say("installing Debian with debootstrap")
        self.install()
        self.say("fetching the kernel")
        self.kernel()
        self.say("installing Python packages, users and init")
        self.python_packages()
        self.users()
        self.files()
        self.say("packing")
        self.pack()
        self.say("ready")

    def install(self) -> None:
        """debootstrap in a mount namespace of its own: its mounts go away with it, even killed."""
        settings = self.tree / "etc/dpkg/dpkg.cfg.d/outgrow"
        settings.parent.mkdir(parents=True)
        settings.write_text("force-unsafe-io\n")
        mirror = debian_mirror(suite=self.recipe.suite)
        self.run(
            "unshare",
            "--mount",
            "debootstrap",
            "--variant=minbase",
            "--arch=amd64",
            "--force-check-gpg",
            f"--keyring={KEYRING}",
            f"--include={','.join(self.recipe.packages)}",
            self.recipe.suite,
            str(self.tree),
            *([mirror] if mirror else []),
        )

    def kernel(self) -> None:
        """The kernel package unpacked, not installed: nothing here needs its own initramfs.

        apt works on lists and state of its own and checks them with the host's Debian keyring.
        """
        apt = self.folder / "apt"
        (apt / "lists/partial").mkdir(parents=True)
        archive = (self.tree / "etc/apt/sources.list").read_text().split()[1]
        (apt / "sources.list").write_text(
            f"deb [arch=amd64 signed-by={KEYRING}] {archive} {self.recipe.suite} main\n"
        )
        options = {
            "Dir::State": apt,
            "Dir::State::Status": "/dev/null",
            "Dir::Cache": apt / "cache",
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
        }
        flags = [f"-o{name}={value}" for name, value in options.items()]
        self.run("apt-get", *flags, "-q", "update")
        needs = self.run("apt-cache", *flags, "depends", "--important", self.recipe.kernel)
        image = needs.partition("Depends:")[2].split()[0]
        self.run("apt-get", *flags, "-q", "download", image, cwd=apt)
        (package,) = apt.glob("*.deb")
        self.run("dpkg-deb", "-x", str(package), str(apt / "kernel"))

        (vmlinuz,) = (apt / "kernel/boot").glob("vmlinuz-*")
        version = vmlinuz.name.removeprefix("vmlinuz-")
        vmlinuz.rename(self.folder / "vmlinuz")
        everything = apt / "kernel/usr/lib/modules" / version
        modules = self.tree / "usr/lib/modules" / version
        modules.parent.mkdir(exist_ok=True)
        everything.rename(modules)
        self.keep_modules(modules)
        shutil.rmtree(apt)

    def keep_modules(self, modules: Path) -> None:
        """Keep the recipe's modules and what they need, unpacked so that they load fast."""
        self.chroot("depmod", modules.name)
        needs = {}
        for line in (modules / "modules.dep").read_text().splitlines():
            file, _, others = line.partition(":")
            needs[file] = others.split()
        paths = {Path(file).name.partition(".")[0]: file for file in needs}
        wanted = [*self.recipe.modules, *self.recipe.spare_modules]
        if absent := [name for name in wanted if name not in paths]:
            raise CannotBuild(f"the kernel package has no module {', '.join(absent)}")
        kept = {file for name in wanted for file in [paths[name], *needs[paths[name]]]}
        for file in needs:
            packed = modules / file
            if file in kept and packed.suffix == ".xz":
                packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
            if file not in kept or packed.suffix == ".xz":
                packed.unlink()
        self.chroot("depmod", modules.name)
        (self.tree / "etc/modules").write_text("\n".join(self.recipe.modules) + "\n")

    def python_packages(self) -> None:
        """Wheels for the guest's Python, picked by the host's pip; compiled by the guest's."""
        listing = self.folder / "requirements.txt"
        listing.write_text(self.recipe.requirements)
        self.run(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
            *("--disable-pip-version-check", "--root-user-action=ignore"),
            *("--only-binary=:all:", "--implementation=cp"),
            *(f"--platform={name}" for name in PLATFORMS),
            f"--python-version={self.recipe.python}",
            f"--target={self.tree / 'opt/outgrow/site'}",
            f"--requirement={listing}",
        )
        self.chroot("python3", "-m", "compileall", "-q", "/opt/outgrow/site")

    def users(self) -> None:
        for name, uid in self.recipe.users:
            self.chroot("groupadd", f"--gid={uid}", name)
            home = ("--create-home", "--shell=/bin/bash")
            self.chroot("useradd", f"--uid={uid}", f"--gid={uid}", *home, name)

    def files(self) -> None:
        for pattern in self.recipe.dropped:
            for victim in list(self.tree.glob(pattern)):
                if victim.is_dir() and not victim.is_symlink():
                    shutil.rmtree(victim)
                else:
                    victim.unlink()
        for name in ("data", "var/log", "var/cache", "opt/outgrow/src"):
            (self.tree / name).mkdir()
        (self.tree / "etc/hosts").write_text("127.0.0.1 localhost outgrow-vm\n::1 localhost\n")
        (self.tree / "etc/hostname").write_text("outgrow-vm\n")
        shutil.copy(GUEST / "fstab", self.tree / "etc/fstab")
        shutil.copy(GUEST / "init", self.tree / "init")
        (self.tree / "init").chmod(0o755)

    def pack(self) -> None:
        """The tree as the kernel's initramfs wants it; not compressed, to unpack fast."""
        with (self.folder / "tree.cpio").open("wb") as archive:
            names = sorted(
                str(path.relative_to(self.tree)) for path in (self.tree, *self.tree.rglob("*"))
            )
            subprocess.run(
                ["cpio", "--quiet", "--null", "--create", "--format=newc"],
                cwd=self.tree,
                input="\0".join(names).encode(),
                stdout=archive,
                check=True,
                timeout=_STEP_LIMIT,
            )

    def chroot(self, *argv: str) -> str:
        return self.run("chroot", str(self.tree), *argv)

    def run(self, *argv: str, cwd: Path | None = None) -> str:
        """Run one step; its standard output is returned, and all it says goes to the log."""
        environment = os.environ | {
            "PATH": f"{os.environ.get('PATH', '')}:{_SBIN}",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
        }
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(argv)}\n")
            log.flush()
            done = subprocess.run(
                argv,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=_STEP_LIMIT,
            )
            log.write(done.stdout)
        if done.returncode:
            said = "".join(self.log.read_text().splitlines(keepends=True)[-20:])
            raise CannotBuild(f"building the virtual machine: {argv[0]} failed\n{said}")
        return done.stdout

    def say(self, what: str) -> None:
        passed = time.monotonic() - self.started
        print(f"vm: {passed:5.1f} s  {what}", file=sys.stderr, flush=True)


@contextmanager
def _one_builder(root: Path) -> Iterator[None]:
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    try:
        base = prepare(Path(__file__).parents[2])
    except CannotBuild as reason:
        print(reason, file=sys.stderr)
        return 1
    print(base.kernel.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
