"""Prints the Debian packages that the tests' virtual machine needs and this host does not have."""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.vm.base import KEYRING, TOOLS

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"

missing = {package for tool, package in TOOLS.items() if shutil.which(tool, path=PATH) is None}
if not KEYRING.is_file():
    missing.add("debian-archive-keyring")
print(" ".join(sorted(missing)))
