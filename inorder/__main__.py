"""Start every `inorder` command of the engine: `inorder …`, or `python -m inorder …`.

The engine's packages are installed beside this one under common names (`cli`, `agents`, `sinks`,
…). They are imported only from this folder. A package of the same name elsewhere on Python's path
would run with the command's environment, including its passwords. If another distribution has put
files into one of them, the command is refused with a one-line error. Otherwise foreign code would
run in the engine, or the engine's code in the other program.

A signal may arrive during the imports, which take a second or more. A command that serves then
exits with 0, because it has nothing to finish yet. Any other command dies of the signal, as
programs do, without a stack trace. Before this module is loaded (the start of Python itself, some
hundredths of a second), Python handles the signal.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib takes its time
ROOMS = frozenset(
    {
        *("agents", "cli", "codec", "inorder", "producers", "recordings", "sinks"),
        *("spark_analytics", "topology"),
    }
)
SERVING = frozenset({"sink", "stage", "sync-server", "worker"})
"""Commands that run until they are stopped, and then exit with 0."""

REFUSED = 2
INFO = ".dist-info"
ENGINE = "inorder_engine-"
BEGIN = "__init__.py"
MADE_BY_PYTHON = frozenset({"__pycache__"})


class RoomsBesideThis:
    """A finder for the engine's packages, which runs before the finders that search the path."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 - as the import system calls it
        """Return the engine's package of this name, or None for any other name."""
        return PathFinder.find_spec(name, [HERE]) if name in ROOMS else None


def main() -> None:
    """Run the command that `sys.argv` names."""
    _handle_early_signals()
    if fault := packages_fault(HERE):
        print(f"Error: {fault}", file=sys.stderr)
        raise SystemExit(REFUSED)
    sys.meta_path.insert(0, RoomsBesideThis)
    # Imported objects stay alive, so garbage collections would only cost time.
    gc.disable()
    from cli.main import main as command

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # Click handles KeyboardInterrupt, which this handler raises.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="inorder")


def packages_fault(site: str) -> str:
    """Return the fault of the engine's packages in a folder, and its remedy.

    The folder is compared with the list of files that pip wrote. A checkout has no such list.

    Args:
        site: The folder that contains the packages.

    Returns:
        One line, or an empty text if there is no fault.
    """
    if not os.path.isdir(f"{site}/cli"):  # noqa: PTH112
        return f"the engine is not in {site}, where `inorder` is; pip install inorder-engine"
    for room, names in _read_installed(site).items():
        folder = f"{site}/{room}"
        if _is_intact(folder, names):
            continue
        return (
            f"{folder} also has files of {_find_owner(site, room)}; reinstall inorder-engine in a"
            " separate environment (python -m venv)"
        )
    return ""


def _is_intact(folder: str, names: dict[str, int]) -> bool:
    """Return whether a package has only the files that pip installed, and the same first file."""
    if not os.path.isdir(folder):  # noqa: PTH112
        return False
    with os.scandir(folder) as entries:
        there = {each.name: each.stat().st_size for each in entries}
    added = there.keys() - names.keys() - MADE_BY_PYTHON
    return not added and there.get(BEGIN) == names.get(BEGIN)


def _read_installed(site: str) -> dict[str, dict[str, int]]:
    """Return the files that pip installed, by package and name, with their sizes.

    The size of a folder is 0.
    """
    found: dict[str, dict[str, int]] = {}
    for info in _list_installed(site):
        if info.startswith(ENGINE):
            for path, size in _iter_files(site, info):
                room, _, below = path.partition("/")
                name, _, deeper = below.partition("/")
                if room in ROOMS and name:
                    found.setdefault(room, {})[name] = 0 if deeper else size
    return found


def _find_owner(site: str, room: str) -> str:
    """Return the name of another distribution that has files in the package."""
    for info in _list_installed(site):
        files = (path for path, _ in _iter_files(site, info))
        if not info.startswith(ENGINE) and any(path.startswith(f"{room}/") for path in files):
            return info.removesuffix(INFO).rpartition("-")[0]
    return "another package"


def _list_installed(site: str) -> list[str]:
    return sorted(name for name in os.listdir(site) if name.endswith(INFO))  # noqa: PTH208


def _iter_files(site: str, info: str) -> Iterator[tuple[str, int]]:
    """Yield the path and the size of each file of a distribution, as pip recorded them."""
    try:
        with open(f"{site}/{info}/RECORD", encoding="utf-8") as record:  # noqa: PTH123
            for line in record:
                path, _, size = line.strip().rsplit(",", 2)
                yield path, int(size or 0)
    except FileNotFoundError:
        return  # Packages of the operating system may have no list of files.


def _handle_early_signals() -> None:
    """Handle signals that arrive before the command has its own handlers."""
    if sys.argv[1:2] and sys.argv[1] in SERVING:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: os._exit(0))
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
