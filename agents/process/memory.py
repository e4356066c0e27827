"""Finds how much memory the worker's processes may use, and chooses which one the system ends.

The limit is that of the process's own control group, or of a group above it, because each of them
is enforced. `/proc/self/cgroup` names the group, and `/proc/self/mountinfo` shows where its files
are. In a container, the mounted tree may begin at the container's own group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

SELF: Final = Path("/proc/self")
LIMITS: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""The file with the limit of a group, by the type of the file system."""
OOM_SCORE: Final = "oom_score_adj"
STAGE_OOM_SCORE: Final = 200
"""By how much a stage is more likely than its supervisor to be ended when memory runs out."""
MOST_OOM_SCORE: Final = 1_000


def memory_limit(process: Path = SELF) -> int:
    """Return the memory limit of all the worker's processes, in bytes.

    It is the smallest limit of the groups of the process, or the memory of the machine if that is
    smaller. `process` is the folder of the process in `/proc`.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # Outside Linux there is no such folder.
        found += _read_group_limits(process)
    return min(found)


def _read_group_limits(process: Path) -> Iterator[int]:
    groups: dict[str, str] = {}  # By type of the file system, as in `LIMITS`.
    for line in (process / "cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            groups["cgroup2"] = group
        elif "memory" in controllers.split(","):
            groups["cgroup"] = group
    for line in (process / "mountinfo").read_text().splitlines():
        mounted, _, kind = line.partition(" - ")
        root, mount = mounted.split()[3:5]
        fields = kind.split()
        name = LIMITS.get(fields[0])
        has_memory = fields[0] == "cgroup2" or "memory" in fields[-1].split(",")
        if name is None or not has_memory or fields[0] not in groups:
            continue
        top = Path(mount.replace("\\040", " "))
        own = Path(groups[fields[0]])
        inside = own.relative_to(root) if own.is_relative_to(root) else Path()
        for folder in (top / inside, *(top / each for each in inside.parents)):
            with suppress(OSError, ValueError):  # A group may have no limit, `max`.
                yield int((folder / name).read_text())


def raise_kill_priority(process: Path = SELF) -> None:
    """Make the system end this process before its parent if memory runs out, where it can."""
    file = process / OOM_SCORE
    with suppress(OSError, ValueError):
        file.write_text(str(min(MOST_OOM_SCORE, int(file.read_text()) + STAGE_OOM_SCORE)))
