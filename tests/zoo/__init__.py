"""Real programs that must never notice: the same answer, however often they are moved."""
