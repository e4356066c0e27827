"""Ends the process when a user's function never returns.

Such a function blocks the event loop of its worker, and with it everything that would notice: the
watchdog, the port and the clients. So a thread of the interpreter's `faulthandler` watches. If one
uninterrupted piece of work takes longer than `stuck_after_ns`, it ends the process at once. The
exit code is 1, and a traceback in the log names the line.

Nothing of that piece was committed. The next owner reads the same event and ends in the same way,
until the function is corrected. Skipping the event after some time would make the results depend on
the speed of a machine.

It is active only if the topology has user functions. Cost: 70 us for each piece of work.
"""

from __future__ import annotations

import faulthandler
import sys


class HangGuard:
    """A context manager that ends the process if its body takes longer than `stuck_after_ns`."""

    def __init__(self, stuck_after_ns: int, *, is_armed: bool) -> None:
        self._stuck_after_s = stuck_after_ns / 1e9
        self._log = sys.__stderr__ if is_armed else None

    def __enter__(self) -> None:
        if self._log is not None:
            faulthandler.dump_traceback_later(self._stuck_after_s, exit=True, file=self._log)

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            faulthandler.cancel_dump_traceback_later()
