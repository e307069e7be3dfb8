"""Parts of overhead.py: the ways to run a job, what supervises it, and what is made of them."""
