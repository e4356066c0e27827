"""Decides whether the worker makes progress. Pure: observations come in, a verdict goes out.

What counts is what has been *committed*: the reported position is that of the last
checkpoint as long as anything is owed to the log, and a partition that has read all and
gets none of it committed does not get on. It *gets on* while its position rises above the
highest it ever had, or while there is nothing to read (the position is at the end) and
nothing owed. So a loop of aborts that seeks back again and again is no progress. From the
moment neither is so, time counts against it:

* after `unready_after_ns` the worker is not ready, and names the partition that is stalled;
* after `stuck_after_ns` it should stop: a new owner takes over, or the fault is loud.

Two faults are reported sooner, after `silent_after_ns`, since nothing sound looks like them:
something is owed and no checkpoint comes through, be it that they hang or that they fail;
no report of a partition comes, which its broker answers for many times a second, and then
nobody looks after it. While it restores it is not ready from the start; its position is
then that in the changelog, whose highest is kept apart, and the time is not held against
its checkpoints. One that waits while others are restored is not ready, and no time counts
against it: its own turn has not come, or it is not read before all that came with it can be. So it
is with one that waits for a schema registry.

Between `leaving` and `joined` the worker has no place in its group: it is not ready, and
reports it, and this counts as a stall too. A broker that falls silent ends there, as the
group's session does.

Only time in which the worker could have worked counts: between two calls at most
`longest_step_ns`. So a worker that was paused, or a machine that slept, is not
condemned for it on waking (`silent_after_ns` lies above that). `now_ns` is a monotonic
clock; where it goes back no time has passed. Memory and cost: O(partitions assigned).

`unready_after_ns` lies above the time-out of a transaction (10 s): the open one of a
dead worker holds up its readers for that long, and this is no fault of theirs. Their
broker answers them meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

S_NS: Final = 1_000_000_000
OTHERS_RESTORED: Final = "waits while others are restored"

Place = tuple[str, int]
"""Topic and partition."""


class Patience(NamedTuple):
    """How long a standstill is borne; see the module's docstring."""

    unready_after_ns: int = 15 * S_NS
    stuck_after_ns: int = 60 * S_NS
    longest_step_ns: int = 5 * S_NS
    silent_after_ns: int = 6 * S_NS


class Verdict(NamedTuple):
    """What is to be said of a worker: it is ready where there are no reasons, and should stop where
    it is stuck. `reasons` name each partition that is not in order, the longest stalled first."""

    reasons: tuple[str, ...] = ()
    is_stuck: bool = False


@dataclass(slots=True)
class _Watched:
    """What the watchdog knows of a partition.

    Attributes:
        paid_ns: When the partition last owed no checkpoint, or committed one.
        highest: The highest position seen, by whether the partition was restoring.
    """

    moved_ns: int
    paid_ns: int
    reported_ns: int
    position: int | None = None
    end_offset: int = 0
    restoring: bool = False
    highest: dict[bool, int] = field(default_factory=lambda: {True: -1, False: -1})
    commits: int = 0
    owes: bool = False
    waits: str = ""

    def lag(self) -> int:
        return 0 if self.position is None else max(0, self.end_offset - self.position)


class Watchdog:
    """One worker's partitions. All times inside are those of `_elapsed_ns`."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._watched: dict[Place, _Watched] = {}
        self._elapsed_ns = 0
        self._last_now_ns: int | None = None
        self._left_ns: int | None = None

    def leaving(self, now_ns: int) -> None:
        """The group is about to assign partitions, for the first time or anew."""
        self._pass_time(now_ns)
        if self._left_ns is None:
            self._left_ns = self._elapsed_ns

    def joined(self, now_ns: int) -> None:
        """The group has assigned this worker its partitions, or none."""
        self._pass_time(now_ns)
        self._left_ns = None

    def assigned(self, now_ns: int, place: Place) -> None:
        """The partition is this worker's from now on; it begins with a clean slate."""
        self._pass_time(now_ns)
        since_ns = self._elapsed_ns
        self._watched[place] = _Watched(since_ns, since_ns, since_ns)

    def revoked(self, now_ns: int, place: Place) -> None:
        """It is no more; what had not been assigned is no error."""
        self._pass_time(now_ns)
        self._watched.pop(place, None)

    def reported(
        self,
        now_ns: int,
        place: Place,
        position: int,
        end_offset: int,
        *,
        restoring: bool = False,
        owes: bool = False,
        commits: int = 0,
    ) -> None:
        """Offsets after what is done and after the last; of the changelog while restoring.

        `owes`: something waits for a checkpoint, and `position` is then the last one's; of
        these `commits` have come through since the partition was opened. A partition that is
        not assigned (any more) is passed over.
        """
        self._pass_time(now_ns)
        watched = self._watched.get(place)
        if watched is None:
            return
        if restoring:
            watched.paid_ns += self._elapsed_ns - watched.reported_ns
        else:
            if not owes or commits > watched.commits:
                watched.paid_ns = self._elapsed_ns
            watched.commits = commits
        watched.owes = owes
        if position > watched.highest[restoring] or (position >= end_offset and not owes):
            watched.moved_ns = self._elapsed_ns
            watched.highest[restoring] = max(position, watched.highest[restoring])
        watched.position = position
        watched.end_offset = end_offset
        watched.restoring = restoring
        watched.waits = ""
        watched.reported_ns = self._elapsed_ns

    def waits(self, now_ns: int, place: Place, why: str = OTHERS_RESTORED) -> None:
        """It waits for others: not ready, and the time since its last report does not count. A
        partition that is not assigned is passed over."""
        self._pass_time(now_ns)
        watched = self._watched.get(place)
        if watched is None:
            return
        uncounted_ns = self._elapsed_ns - watched.reported_ns
        watched.moved_ns += uncounted_ns
        watched.paid_ns += uncounted_ns
        watched.reported_ns = self._elapsed_ns
        watched.waits = why

    def verdict(self, now_ns: int) -> Verdict:
        """The state of the worker; with a place in the group and no partitions it is ready to get
        some."""
        self._pass_time(now_ns)
        longest_ns = 0
        faults: list[tuple[int, Place, str]] = []
        for place, watched in self._watched.items():
            stalled_ns, reason = self._stall(watched)
            longest_ns = max(longest_ns, stalled_ns)
            if reason:
                faults.append((-stalled_ns, place, reason))
        faults.sort()
        reasons = tuple(f"{topic}/{number}: {reason}" for _, (topic, number), reason in faults)
        if self._left_ns is not None:
            waiting_ns = self._elapsed_ns - self._left_ns
            longest_ns = max(longest_ns, waiting_ns)
            reasons = (f"no place in the consumer group for {_shown(waiting_ns)}", *reasons)
        return Verdict(reasons, longest_ns >= self._patience.stuck_after_ns)

    def _stall(self, watched: _Watched) -> tuple[int, str]:
        """For how long it is stalled, and the reason ("" if that is no fault)."""
        silent_ns = self._elapsed_ns - watched.reported_ns
        owing_ns = self._elapsed_ns - watched.paid_ns if watched.owes else 0
        stalled_ns = self._elapsed_ns - watched.moved_ns if watched.lag() else silent_ns
        if owing_ns >= self._patience.silent_after_ns:
            at = f"the last one at offset {watched.position}"
            fault = f"no checkpoint has come through for {_shown(owing_ns)} ({at})"
            return max(silent_ns, stalled_ns, owing_ns), fault
        if silent_ns >= self._patience.silent_after_ns:
            return max(silent_ns, stalled_ns), f"no report of it for {_shown(silent_ns)}"
        if stalled_ns >= self._patience.unready_after_ns:
            work = "restore" if watched.restoring else "progress"
            lag = f"lag {watched.lag()}, position {watched.position}"
            return stalled_ns, f"no {work} while there is lag for {_shown(stalled_ns)} ({lag})"
        if watched.waits:
            return stalled_ns, watched.waits
        if watched.restoring:
            return stalled_ns, f"restoring, {watched.lag()} records to read"
        return stalled_ns, ""

    def _pass_time(self, now_ns: int) -> None:
        if self._last_now_ns is not None:
            step_ns = now_ns - self._last_now_ns
            self._elapsed_ns += min(max(step_ns, 0), self._patience.longest_step_ns)
        self._last_now_ns = now_ns


def _shown(duration_ns: int) -> str:
    return f"{duration_ns / S_NS:.0f} s"
