"""Decides from observations, without I/O, whether the worker makes progress.

Only *committed* work counts. While processed records of a partition wait for a checkpoint, its
reported position is that of the last checkpoint. So a partition that has read everything and
commits nothing makes no progress. A partition *makes progress* while its position rises above its
highest value. It also does while there is nothing to read (the position is at the end) and nothing
to commit. So a loop of aborts that seeks back again and again makes no progress. When neither is
the case, time counts against the partition:

* After `unready_after_ns` the worker is not ready, and names the stalled partition.
* After `stuck_after_ns` it should stop: a new owner takes over, or the fault becomes visible.

Two faults are reported sooner, after `silent_after_ns`, because no healthy worker shows them:

* There is something to commit and no checkpoint is committed, because checkpoints hang or fail.
* A partition is not reported, although its broker answers many times a second. Then nothing
  works on the partition.

A restoring partition is not ready from the start. Its position is then that in the changelog, whose
highest value is stored separately. The time of the restore does not count against its checkpoints.
A partition that waits while others are restored is not ready, and no time counts against it. Either
its turn has not come, or it cannot be read before all partitions of its assignment can. The same
holds for one that waits for a schema registry, or before its opening for a leader.

Between `leaving` and `note_joining`, during a rebalance, the worker is not ready and says so. This
time counts as a stall too. It also begins if a broker stops answering, when the group's session
expires.

Only time in which the worker could have worked counts: at most `longest_step_ns` between two calls.
So a worker that was paused, or a machine that was suspended, is not blamed when it resumes
(`silent_after_ns` is larger than that). Time in which a quota throttles the worker does not count
either. `now_ns` is a monotonic clock; a step back counts as no time. Memory and cost: O(partitions
assigned).

`unready_after_ns` is larger than the timeout of a transaction (10 s). The open transaction of a
dead worker delays those who read its topics for that long, which is not their fault. Their broker
answers them meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

S_NS: Final = 1_000_000_000
OTHERS_RESTORED: Final = "waits while others are restored"

Place = tuple[str, int]
"""Topic and partition."""


class Patience(NamedTuple):
    """The times after which a stalled worker or partition is reported; see the module."""

    unready_after_ns: int = 15 * S_NS
    stuck_after_ns: int = 60 * S_NS
    longest_step_ns: int = 5 * S_NS
    silent_after_ns: int = 6 * S_NS


class Verdict(NamedTuple):
    """The state of a worker: it is ready if there are no reasons, and should stop if it is stuck.

    `reasons` name each partition that is not ready, the longest stalled first.
    """

    reasons: tuple[str, ...] = ()
    is_stuck: bool = False


@dataclass(slots=True)
class _Watched:
    """The observations of one partition.

    Attributes:
        paid_ns: Time at which the partition last had nothing to commit, or committed a checkpoint.
        highest: The highest position seen, separately for a restore (True) and for normal work.
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
    """The watch over the partitions of one worker; stored times are those of `_elapsed_ns`."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._watched: dict[Place, _Watched] = {}
        self._elapsed_ns = 0
        self._last_now_ns: int | None = None
        self._left_ns: int | None = None
        self._throttled_until_ns = 0

    def note_throttling(self, now_ns: int, until_ns: int) -> None:
        """Record that brokers throttle the worker until a time, which may have passed."""
        self._pass_time(now_ns)
        self._throttled_until_ns = until_ns

    def leaving(self, now_ns: int) -> None:
        """Record that the group is about to assign partitions, for the first time or again."""
        self._pass_time(now_ns)
        if self._left_ns is None:
            self._left_ns = self._elapsed_ns

    def note_joining(self, now_ns: int) -> None:
        """Record that the group has assigned this worker its partitions, or none."""
        self._pass_time(now_ns)
        self._left_ns = None

    def assign(self, now_ns: int, place: Place) -> None:
        """Add a partition without any history."""
        self._pass_time(now_ns)
        since_ns = self._elapsed_ns
        self._watched[place] = _Watched(since_ns, since_ns, since_ns)

    def revoke(self, now_ns: int, place: Place) -> None:
        """Remove a partition; ignore one that was not assigned."""
        self._pass_time(now_ns)
        self._watched.pop(place, None)

    def report(
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
        """Record the offsets after the last processed and the last existing record of a partition.

        They are offsets of the changelog while restoring. `owes` says that something waits for a
        checkpoint; `position` is then that of the last checkpoint. `commits` is the number of
        checkpoints committed since the partition was opened. A partition that is not (or no longer)
        assigned is ignored.
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
        """Record that the partition waits for others or for `why`, so that it is not ready.

        The time since its last report does not count. A partition that is not assigned is ignored.
        """
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
        """Return the state of the worker.

        A worker to which the group has assigned no partitions is ready to receive some.
        """
        self._pass_time(now_ns)
        longest_ns = 0
        faults: list[tuple[int, Place, str]] = []
        for place, watched in self._watched.items():
            stalled_ns, reason = self._find_stall(watched)
            longest_ns = max(longest_ns, stalled_ns)
            if reason:
                faults.append((-stalled_ns, place, reason))
        faults.sort()
        reasons = tuple(f"{topic}/{number}: {reason}" for _, (topic, number), reason in faults)
        if self._left_ns is not None:
            waiting_ns = self._elapsed_ns - self._left_ns
            longest_ns = max(longest_ns, waiting_ns)
            reasons = (f"no assignment by the group for {_format(waiting_ns)}", *reasons)
        return Verdict(reasons, longest_ns >= self._patience.stuck_after_ns)

    def _find_stall(self, watched: _Watched) -> tuple[int, str]:
        """Return how long the partition has stalled, in ns, and the reason ("" if it has not)."""
        silent_ns = self._elapsed_ns - watched.reported_ns
        owing_ns = self._elapsed_ns - watched.paid_ns if watched.owes else 0
        stalled_ns = self._elapsed_ns - watched.moved_ns if watched.lag() else silent_ns
        if owing_ns >= self._patience.silent_after_ns:
            at = f"the last one at offset {watched.position}"
            fault = f"no checkpoint has been committed for {_format(owing_ns)} ({at})"
            return max(silent_ns, stalled_ns, owing_ns), fault
        if silent_ns >= self._patience.silent_after_ns:
            return max(silent_ns, stalled_ns), f"no sign of life for {_format(silent_ns)}"
        if stalled_ns >= self._patience.unready_after_ns:
            work = "restore" if watched.restoring else "progress"
            lag = f"lag {watched.lag()}, position {watched.position}"
            return stalled_ns, f"no {work} for {_format(stalled_ns)} although there is lag ({lag})"
        if watched.waits:
            return stalled_ns, watched.waits
        if watched.restoring:
            return stalled_ns, f"restoring, {watched.lag()} records to read"
        return stalled_ns, ""

    def _pass_time(self, now_ns: int) -> None:
        if self._last_now_ns is not None:
            step_ns = now_ns - max(self._last_now_ns, self._throttled_until_ns)
            self._elapsed_ns += min(max(step_ns, 0), self._patience.longest_step_ns)
        self._last_now_ns = now_ns


def _format(duration_ns: int) -> str:
    return f"{duration_ns / S_NS:.0f} s"
