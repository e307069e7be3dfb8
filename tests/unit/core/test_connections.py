"""Which connections of a job lead out of it."""

from __future__ import annotations

from outgrow.core.connections import Connection, leading_out

INSIDE = Connection("127.0.0.1", 4000, "127.0.0.1", 80)
OUTSIDE = Connection("10.0.0.1", 5000, "10.0.0.2", 443)
TO_A_NEIGHBOUR = Connection("127.0.0.1", 4001, "127.0.0.1", 80)


def test_a_connection_with_both_ends_in_the_job_stays_inside() -> None:
    both = [INSIDE, INSIDE.from_the_other_end()]
    assert leading_out(both) == ()
    assert leading_out([*both, OUTSIDE]) == (OUTSIDE,)


def test_one_to_another_program_on_the_same_host_leads_out() -> None:
    found = leading_out([INSIDE, INSIDE.from_the_other_end(), TO_A_NEIGHBOUR])
    assert found == (TO_A_NEIGHBOUR,)


def test_there_and_back_it_is_the_same() -> None:
    assert OUTSIDE.from_the_other_end().from_the_other_end() == OUTSIDE
