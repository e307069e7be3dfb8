"""PID 1 of a job's namespaces, and the way to talk to it."""
