"""Starting outgrow's own helper programs with the interpreter that runs outgrow."""

from __future__ import annotations

import sys
from pathlib import Path

_START = "import runpy, sys; sys.path.insert(0, sys.argv[1]); del sys.argv[1]; runpy.run_module"
_ROOT = str(Path(__file__).parents[2])


def own_program(module: str, *arguments: str) -> list[str]:
    """The argv that runs `module` of this very outgrow.

    Isolated (-I): neither the user's environment nor the directory that the job starts in can put
    another module in the way of one that runs as root.
    """
    start = f"{_START}({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-I", "-c", start, _ROOT, *arguments]
