"""What is known of the sessions of one key."""

from __future__ import annotations

from topology.operator import Plain
from topology.window.cells import Makers
from topology.window.core import Cores, loaded


class Track:
    """One key. `cores` by their first event; `shown`: revision and end of what was told and
    is not final, by start. `is_exact`: no time of it has an error. `is_blurred`: there were
    too many cores."""

    __slots__ = ("cores", "dirty", "is_blurred", "is_exact", "shown")

    def __init__(self) -> None:
        self.cores: Cores = []
        self.shown: dict[int, tuple[int, int]] = {}
        self.is_exact = True
        self.is_blurred = False
        self.dirty = False

    def dump(self) -> Plain:
        shown = [[start, *told] for start, told in sorted(self.shown.items())]
        cores = [core.dump() for core in self.cores]
        return [cores, shown, self.is_exact, self.is_blurred]


def restored(state: Plain, makers: Makers) -> Track:
    cores, shown, is_exact, is_blurred = state
    track = Track()
    track.cores = [loaded(core, makers) for core in cores]
    track.shown = {start: (revision, end) for start, revision, end in shown}
    track.is_exact, track.is_blurred = is_exact, is_blurred
    return track
