"""The process of every `inorder` command: the one module that it is started as.

Its name is nobody else's, unlike those of the rooms that lie beside it (`cli`, `agents`,
`sinks`, …). These are looked for here and nowhere else: what bears their names elsewhere on
Python's path would run with the command's environment, and the passwords in it.

A signal may come while everything is still imported, which takes a second and more. What serves
leaves with 0 then, for there is nothing to finish yet; anything else dies of it as programs do,
without a stack trace. Before this module is there (the start of Python itself, some hundredths of
a second) the signal is Python's.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib.machinery import ModuleSpec, PathFinder

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes its time
ROOMS = frozenset(
    {
        *("agents", "cli", "codec", "inorder", "producers", "recordings", "sinks"),
        *("spark_analytics", "topology"),
    }
)
SERVING = frozenset({"sink", "stage", "sync-server", "worker"})
"""These run until they are told to stop, and leave with 0 then."""


class RoomsBesideThis:
    """Finds them, before all that looks along the path."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 - as the import system calls it
        return PathFinder.find_spec(name, [HERE]) if name in ROOMS else None


def main() -> None:
    _heed_signals()
    sys.meta_path.insert(0, RoomsBesideThis)
    gc.disable()  # until the command is there: what imports make is kept
    from cli.main import main as command

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which click knows to take
    command(prog_name="inorder")


def _heed_signals() -> None:
    """Until the command has handlers of its own."""
    if sys.argv[1:2] and sys.argv[1] in SERVING:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(0))
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
