"""Which Debian mirror this host uses, from its own apt configuration.

No mirror is named here: a host behind a proxy or a local mirror has said in its sources where
packages come from, and the machine's packages come from the same place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEBIAN_SUITES = frozenset(
    ["bullseye", "bookworm", "trixie", "forky", "stable", "testing", "unstable", "sid", "oldstable"]
)
_REACHABLE = ("http://", "https://", "file:", "copy:")


@dataclass(frozen=True)
class Source:
    """One archive that apt is told to use."""

    uri: str
    suite: str
    components: tuple[str, ...]


def debian_mirror(apt: Path = Path("/etc/apt"), suite: str = "trixie") -> str | None:
    """The URI of the Debian archive that this host's apt uses, or None when it names none.

    An entry counts when it has Debian's component `main` under a name of a Debian release, so
    that security archives, other vendors' and Ubuntu's are passed over; one that names `suite`
    itself wins over others. `mirror+file:` lists are followed to their first entry.
    """
    found = [
        source
        for source in sources(apt)
        if source.suite in DEBIAN_SUITES and "main" in source.components
    ]
    found.sort(key=lambda source: source.suite != suite)
    for source in found:
        uri = _followed(source.uri)
        if uri.startswith(_REACHABLE):
            return uri.rstrip("/")
    return None


def sources(apt: Path) -> Iterator[Source]:
    """Every binary archive in `sources.list` and `sources.list.d`, in apt's own order."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        if file.suffix == ".sources":
            yield from deb822(file.read_text())
        elif file.suffix == ".list":
            yield from one_line(file.read_text())


def one_line(text: str) -> Iterator[Source]:
    """The entries of a `.list` file: `deb [options] URI suite component…`."""
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] != "deb":
            continue
        words = words[1:]
        if words and words[0].startswith("["):
            closing = next((i for i, word in enumerate(words) if word.endswith("]")), None)
            words = [] if closing is None else words[closing + 1 :]
        if len(words) >= 2:
            yield Source(words[0], words[1], tuple(words[2:]))


def deb822(text: str) -> Iterator[Source]:
    """The entries of a `.sources` file: stanzas of `Field: value`, folded lines joined."""
    for stanza in _stanzas(text):
        if "deb" not in stanza.get("types", "").split():
            continue
        if stanza.get("enabled", "yes").strip().lower() in ("no", "false", "off", "0"):
            continue
        components = tuple(stanza.get("components", "").split())
        for uri in stanza.get("uris", "").split():
            for suite in stanza.get("suites", "").split():
                yield Source(uri, suite, components)


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    field = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, ""
        elif line[0].isspace():
            if field:
                stanza[field] += " " + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            field = name.strip().lower()
            stanza[field] = value.strip()


def _followed(uri: str) -> str:
    """The first entry of the list that a `mirror+file:` URI names; any other URI as it is."""
    if not uri.startswith("mirror+file:"):
        return uri
    listing = Path("/" + uri.removeprefix("mirror+file:").lstrip("/"))
    if not listing.is_file():
        return uri
    entries = [line.split("#")[0].split() for line in listing.read_text().splitlines()]
    return next((words[0] for words in entries if words), uri)
