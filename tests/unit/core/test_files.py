"""What a file needs before its job goes back to a checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.files import Change, FileNow, FileState, needed_change

LOG = FileState("/log", 21, 1000, 55, 0o644, grows=True)
DATA = FileState("/data", 22, 1000, 55, 0o644, grows=False, copy="written-1")
SHARED = replace(LOG, shared=True)
WRITTEN = replace(LOG, copy="written-2")
LARGE = replace(DATA, copy="")
MAPPED = replace(DATA, mapped=True)
OUTPUT = replace(LOG, stream=True)
TEMPORARY = replace(DATA, temporary=True)
JOURNAL = FileState("/data-journal", 0, 0, 0, 0, grows=False, absent=True)


def now(then: FileState, **changes: int) -> FileNow:
    return replace(FileNow(then.inode, then.size, then.modified), **changes)


@pytest.mark.parametrize(
    ("then", "found", "change"),
    [
        pytest.param(LOG, now(LOG), Change.NOTHING, id="untouched"),
        pytest.param(LOG, now(LOG, size=1200, modified=60), Change.CUT, id="appended to"),
        pytest.param(LOG, now(LOG, modified=60), Change.NOTHING, id="cut already"),
        pytest.param(LOG, now(LOG, size=10, modified=60), Change.REFUSE, id="truncated log"),
        pytest.param(LOG, None, Change.REFUSE, id="a log that is gone"),
        pytest.param(LOG, now(LOG, inode=9, size=3), Change.REFUSE, id="a rotated log"),
        pytest.param(LOG, now(LOG, inode=9), Change.NOTHING, id="a log from a backup"),
        pytest.param(SHARED, now(SHARED, size=1200), Change.CUT, id="a log of several"),
        pytest.param(WRITTEN, now(WRITTEN, size=1200), Change.CUT, id="written at its end"),
        pytest.param(WRITTEN, now(WRITTEN, modified=60), Change.FILL, id="its head was rewritten"),
        pytest.param(WRITTEN, now(WRITTEN, size=9), Change.FILL, id="written anew"),
        pytest.param(DATA, now(DATA), Change.NOTHING, id="data, untouched"),
        pytest.param(DATA, now(DATA, modified=60), Change.FILL, id="rewritten"),
        pytest.param(DATA, now(DATA, size=1), Change.FILL, id="truncated"),
        pytest.param(DATA, None, Change.CREATE, id="deleted"),
        pytest.param(DATA, now(DATA, inode=9, size=3), Change.CREATE, id="replaced"),
        pytest.param(DATA, now(DATA, inode=9), Change.NOTHING, id="made anew before"),
        pytest.param(MAPPED, now(MAPPED, inode=9), Change.FILL, id="mapped, made anew before"),
        pytest.param(LARGE, now(LARGE), Change.NOTHING, id="large, untouched"),
        pytest.param(LARGE, now(LARGE, modified=60), Change.REFUSE, id="large, rewritten"),
        pytest.param(LARGE, None, Change.REFUSE, id="large, deleted"),
        pytest.param(MAPPED, now(MAPPED), Change.FILL, id="mapped, and nothing to be seen"),
        pytest.param(OUTPUT, now(OUTPUT, size=1200), Change.CUT, id="output"),
        pytest.param(TEMPORARY, None, Change.CREATE, id="a temporary file that is gone"),
        pytest.param(TEMPORARY, now(DATA, size=5), Change.NOTHING, id="one that is there"),
        pytest.param(JOURNAL, None, Change.NOTHING, id="no journal then nor now"),
        pytest.param(JOURNAL, FileNow(30, 5, 5), Change.ASIDE, id="a journal from later"),
    ],
)
def test_of_a_job_that_ran_on(then: FileState, found: FileNow | None, change: Change) -> None:
    assert needed_change(then, found, ran_on=True)[0] is change


@pytest.mark.parametrize(
    ("then", "found", "change"),
    [
        pytest.param(LOG, now(LOG), Change.NOTHING, id="untouched"),
        pytest.param(LOG, now(LOG, size=1200), Change.REFUSE, id="appended to by another"),
        pytest.param(SHARED, now(SHARED, size=1200), Change.NOTHING, id="a log of several"),
        pytest.param(SHARED, now(SHARED, size=9), Change.REFUSE, id="a log of several, cut"),
        pytest.param(LOG, now(LOG, modified=60), Change.NOTHING, id="a log, touched"),
        pytest.param(DATA, now(DATA, inode=9), Change.NOTHING, id="put back from a backup"),
        pytest.param(DATA, now(DATA, inode=9, size=3), Change.REFUSE, id="another file"),
        pytest.param(DATA, now(DATA, modified=60), Change.REFUSE, id="rewritten by another"),
        pytest.param(DATA, None, Change.REFUSE, id="taken away"),
        pytest.param(MAPPED, now(MAPPED), Change.NOTHING, id="mapped, untouched"),
        pytest.param(OUTPUT, now(OUTPUT, size=1200), Change.NOTHING, id="output is anybody's"),
        pytest.param(TEMPORARY, None, Change.CREATE, id="a temporary file that is gone"),
        pytest.param(TEMPORARY, now(DATA, size=5), Change.NOTHING, id="one that is there"),
        pytest.param(OUTPUT, None, Change.NOTHING, id="output that is gone is another's business"),
        pytest.param(JOURNAL, FileNow(30, 5, 5), Change.NOTHING, id="a journal of another"),
    ],
)
def test_of_a_job_that_stood_still(then: FileState, found: FileNow | None, change: Change) -> None:
    assert needed_change(then, found, ran_on=False)[0] is change


@given(
    st.sampled_from([LOG, SHARED, WRITTEN, DATA, LARGE, MAPPED, OUTPUT, JOURNAL]),
    st.none() | st.builds(FileNow, *[st.integers(0, 30)] * 3),
)
def test_what_others_did_is_never_overwritten(then: FileState, found: FileNow | None) -> None:
    change, why = needed_change(then, found, ran_on=False)
    assert change in (Change.NOTHING, Change.REFUSE)
    assert bool(why) is (change is Change.REFUSE)
