"""outgrow: when a job outgrows its memory, it is saved and carried on where it fits."""

__version__ = "0.1.0"
