"""CRIU: finding one that works here, its command lines, and what its logs say."""
