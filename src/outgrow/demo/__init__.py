"""The program that `outgrow demo` runs; it ships with outgrow, and imports nothing of it."""
