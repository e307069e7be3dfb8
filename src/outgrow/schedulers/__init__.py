"""Who gives memory to jobs."""
