"""`python -m outgrow.agent.examination [CRIU]`: does the given CRIU, or the one that outgrow would
take, save and resume a process here?

Prints JSON: `{"schema": 1, "criu", "version", "tried": true, "survived": {KIND: why not, or
empty}}`, or `{…, "tried": false, "why"}` where this host cannot even try. Status 0 when every kind
survived. `make setup` chooses a CRIU by it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from outgrow import libc
from outgrow.agent.examination.saving import what_survives
from outgrow.core.errors import OutgrowError, Unsupported
from outgrow.engines.criu import find
from outgrow.kernel.cgroups import find_hierarchies


def main() -> None:
    """See the module."""
    if len(sys.argv) > 1:
        os.environ[find.VARIABLE] = sys.argv[1]
    libc.become_subreaper()
    report: dict[str, Any] = {"schema": 1}
    try:
        criu = find.find_criu()
        report |= {"criu": criu, "version": find.version_of(criu)}
        if os.geteuid() != 0:
            raise Unsupported("saving a process without root", remedy="run as root")
        survived = what_survives(find_hierarchies())
        report |= {"tried": True, "survived": survived}
    except (OutgrowError, OSError) as error:
        report |= {"tried": False, "why": str(error)}
    print(json.dumps(report))
    sys.exit(0 if report["tried"] and not any(report["survived"].values()) else 1)


if __name__ == "__main__":
    main()
