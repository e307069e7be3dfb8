"""Everything that happened, in order, in SQLite."""
