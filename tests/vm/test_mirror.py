"""Which mirror is taken from an apt configuration."""

from pathlib import Path

import pytest

from .mirror import debian_mirror

DEB822 = """\
Types: deb
# a comment between fields
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 deb http://not.example/ trixie main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""

VENDORS = """\
deb https://vendor.example/apt cloud-sdk-bookworm main
deb [signed-by=/k.gpg] https://node.example/ nodistro main
deb http://ubuntu.example/ubuntu noble main universe
deb-src http://source.example/debian bookworm main
# deb http://comment.example/debian bookworm main
deb http://contrib.example/debian bookworm contrib
deb
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, None, id="no sources at all"),
        pytest.param({"sources.list": VENDORS}, None, id="other archives alone"),
        pytest.param(
            {"sources.list.d/debian.sources": DEB822, "sources.list.d/v.list": VENDORS},
            "http://mirror.example/debian",
            id="deb822 among others",
        ),
        pytest.param(
            {"sources.list": "deb [arch=amd64 signed-by=/k] https://a.example/d/ sid main # x"},
            "https://a.example/d",
            id="one line with options",
        ),
        pytest.param(
            {
                "sources.list": "deb http://old.example/debian bookworm main",
                "sources.list.d/new.list": "deb http://new.example/debian trixie main",
            },
            "http://new.example/debian",
            id="the suite itself wins",
        ),
        pytest.param(
            {"sources.list.d/a.sources": DEB822.replace("Types", "Enabled: no\nTypes")},
            None,
            id="switched off",
        ),
        pytest.param(
            {"sources.list.d/a.sources.save": DEB822}, None, id="a file that apt passes over"
        ),
        pytest.param(
            {"sources.list": "deb cdrom:[Debian]/ trixie main"}, None, id="not to be reached"
        ),
        pytest.param(
            {
                "sources.list": "deb mirror+file:HERE/mirrors.txt trixie main",
                "mirrors.txt": "# near\nhttp://near.example/debian\tpriority:1\nhttp://far.example",
            },
            "http://near.example/debian",
            id="a list of mirrors",
        ),
    ],
)
def test_the_mirror_is_the_hosts_own(
    tmp_path: Path, files: dict[str, str], expected: str | None
) -> None:
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("HERE", str(tmp_path)))
    assert debian_mirror(tmp_path) == expected
