"""The parts of race.py: which cases there are, where they run, and the ways to run one."""
