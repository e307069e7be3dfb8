"""For all tiers."""

from __future__ import annotations

import signal

# A shell starts what it runs in the background with these ignored, and everything that the tests
# start would inherit that: some of them send one, and all must behave alike.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
