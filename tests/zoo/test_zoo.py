"""Each program, moved at random instants, pushed over its limit, and killed and resumed from its
last save: the same answer each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.kit import Outgrow
from tests.zoo.cases import Zoo
from tests.zoo.zoo import ZOO, Case, Program


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("program", "case"),
    [
        pytest.param(program, case, id=f"{program.name}-{case}")
        for program in ZOO
        if not program.known
        for case in program.cases
    ],
)
def test_the_same_answer(
    outgrow: Outgrow,
    zoo: Zoo,
    program: Program,
    case: Case,
    tmp_path: Path,
) -> None:
    if missing := program.missing(tmp_path):
        pytest.skip(missing)
    zoo.play(outgrow, program, case)
