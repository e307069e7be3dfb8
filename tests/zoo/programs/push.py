"""Runs a command, and takes memory beside it after a while: push.py SECONDS MIB COMMAND…"""

import subprocess
import sys
import time

process = subprocess.Popen(sys.argv[3:])
time.sleep(float(sys.argv[1]))
held = [b"x" * (1 << 20) for _ in range(int(sys.argv[2]))]
sys.exit(process.wait())
