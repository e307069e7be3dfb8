"""Parts of dump.py: a save and a resume under outgrow, by raw CRIU, and as plain bytes."""
