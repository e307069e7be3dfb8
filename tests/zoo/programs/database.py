"""SQLite in transactions: a write-ahead log and a rollback journal side by side."""

import sqlite3
import sys
import time

bases = []
for mode in ("wal", "delete"):
    base = sqlite3.connect(f"{mode}.db", isolation_level=None)
    base.execute(f"PRAGMA journal_mode = {mode}")
    base.execute("PRAGMA synchronous = OFF")
    base.execute("CREATE TABLE moves (n INTEGER PRIMARY KEY, text TEXT)")
    bases.append(base)
for batch in range(120 * int((*sys.argv, "1")[1])):
    for base in bases:
        base.execute("BEGIN")
        rows = [(batch * 100 + n, f"row {batch * 100 + n}") for n in range(100)]
        base.executemany("INSERT INTO moves VALUES (?, ?)", rows)
        if batch % 7 == 3:
            base.execute("ROLLBACK")
        else:
            base.execute("UPDATE moves SET text = text || '.' WHERE n % 10 = ?", (batch % 10,))
            time.sleep(0.01)
            base.execute("COMMIT")
for base in bases:
    found = base.execute("SELECT count(*), sum(n), sum(length(text)) FROM moves").fetchone()
    print("database", found, base.execute("PRAGMA integrity_check").fetchone())
