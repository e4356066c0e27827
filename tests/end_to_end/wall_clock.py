"""Set a worker's wall clock wrong by as much as a test wants (tests/kit/wall_clock)."""

from __future__ import annotations

from pathlib import Path

from tests import ROOT

SHIM = ROOT / "tests" / "kit" / "wall_clock"


class WallClock:
    """A worker's wall clock, in a file that the worker reads each time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "wall-clock"
        self.set_off(0)
        self.env = {
            "PYTHONPATH": f"{SHIM}:{ROOT}",
            "INORDER_TEST_WALL_CLOCK": str(self._file),
        }

    def set_off(self, seconds: int) -> None:
        self._file.write_text(f"{seconds}")
