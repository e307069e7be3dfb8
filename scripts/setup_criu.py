"""Has a CRIU that works here: `.venv/bin/python scripts/setup_criu.py [STAMP]`.

The one in use is taken if it saves and resumes a small process on this very kernel, and so is the
system's. Otherwise debian_criu.py beside this fetches a newer one into .venv/lib/outgrow-criu.
STAMP is a file that says for what this was settled.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from debian_criu import AS_ROOT, NoWay, fetch, say

from outgrow.engines.criu.find import VARIABLE, candidates, private_prefix

HELP = "docs/how-to/criu.md says how to get one by hand; `outgrow doctor` checks it"
TRIAL_LIMIT = 120.0


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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoWay as reason:
        say(f"there is no CRIU that works here: {reason}. {HELP}")
        sys.exit(1)
    except CannotTry as reason:
        say(f"no CRIU was looked for, because none can be tried here: {reason}")
        sys.exit(0)
