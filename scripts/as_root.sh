#!/bin/sh
# Run a command as root, by sudo where that is needed, saying so: scripts/as_root.sh COMMAND …
set -eu
. "$(dirname "$0")/lib.sh"
as_root "$@"
