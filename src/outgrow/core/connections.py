"""TCP of a job: which connections stay inside of it and which lead out, and where it listens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Connection:
    """As one end sees it: addresses as text, and ports."""

    local: str
    local_port: int
    remote: str
    remote_port: int

    def from_the_other_end(self) -> Connection:
        """The same connection."""
        return Connection(self.remote, self.remote_port, self.local, self.local_port)


@dataclass(frozen=True)
class Listener:
    """A TCP address that a job waits for connections at."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


def leading_out(connections: Iterable[Connection]) -> tuple[Connection, ...]:
    """Those whose other end is not among them."""
    known = set(connections)
    return tuple(one for one in known if one.from_the_other_end() not in known)
