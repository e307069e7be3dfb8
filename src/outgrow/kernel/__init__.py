"""What the kernel says and does: cgroups, /proc. Every root path can be given, so that tests run
on trees of files."""
