"""The `vm` tier: tests that need cgroup v2, soft-dirty tracking, or jobs of ordinary users.

They run inside a small Debian 13 machine under emulation, the complement of the machine that
outgrow is built on (FACTS, "The virtual machine"): `recipe` says what is in it, `base` builds and
caches it, `machine` boots it and runs scripts, `guest/` is what runs inside.
"""
