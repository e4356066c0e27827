"""Counts dead letters by reason, and describes the first of each reason.

The detail of a dead letter says what was wrong and what to write instead. `Deaths.alarm` makes one
sentence of the commonest reason. It is shown in the log, on the worker's status page, by `inorder
explain` and `inorder doctor`, and at the end of a replay.

Memory: `MAX_REASONS` reasons; further ones count as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

from topology.base.outcome import Malformed
from topology.stage.lanes import lane_of, offset_in_lane

MOST_DEAD: Final = 0.5
"""Share of dead letters above which there is an alarm."""

MAX_REASONS: Final = 64
OTHER: Final = "other"


@dataclass(slots=True)
class DeadReason:
    """The number of dead letters for one reason, and the first of them.

    `at_ns` is the time of the first one, `offset` its offset or line number in the input, and
    `detail` its fault. `log` is its partition, if there are several.
    """

    at_ns: int
    offset: int
    detail: str
    count: int = 0
    log: str = ""


@dataclass(slots=True)
class Deaths:
    """The dead letters of a log, or of a task; `read` counts all records, including dead ones.

    `logs` has the names of the logs of a task that reads several, by the number of their lane.
    """

    log: str = ""
    read: int = 0
    logs: Mapping[int, str] = field(default_factory=dict)
    _reasons: dict[str, DeadReason] = field(default_factory=dict)

    def add(self, report: Malformed) -> None:
        log, offset = self.logs.get(lane_of(report.offset), self.log), offset_in_lane(report.offset)
        first = DeadReason(report.at_ns, offset, report.detail, log=log)
        self._of(report.reason, first).count += 1

    def join(self, other: Deaths) -> None:
        """Add the dead letters of another log to these."""
        self.read += other.read
        for reason, dead in other._reasons.items():
            ours = self._of(reason, dead)
            ours.count += dead.count
            if dead.at_ns < ours.at_ns:
                ours.at_ns, ours.offset, ours.detail = dead.at_ns, dead.offset, dead.detail
                ours.log = dead.log

    def since(self, before: Deaths) -> Deaths:
        """Return the counts since `before`; each reason keeps its first dead letter as example."""
        found = Deaths(self.log, self.read - before.read, self.logs)
        for reason, dead in self._reasons.items():
            known = before._reasons.get(reason)
            count = dead.count - (0 if known is None else known.count)
            if count > 0:
                found._reasons[reason] = replace(dead, count=count)
        return found

    def _of(self, reason: str, first: DeadReason) -> DeadReason:
        if reason not in self._reasons and len(self._reasons) >= MAX_REASONS:
            reason = OTHER
        known = self._reasons.get(reason)
        if known is None:
            known = self._reasons[reason] = replace(first, count=0)
        return known

    @property
    def dead(self) -> int:
        return sum(each.count for each in self._reasons.values())

    def reasons(self) -> list[tuple[str, DeadReason]]:
        """Return the reasons, the commonest first."""
        return sorted(self._reasons.items(), key=lambda each: (-each[1].count, each[1].offset))

    def find_alarm(self, each: str = "record") -> str | None:
        """Return one sentence with the remedy if more than `MOST_DEAD` of the records are dead.

        Otherwise returns None. `each` is the word for one record.
        """
        verdict = self.verdict(each)
        return None if verdict is None else ": ".join(verdict)

    def verdict(self, each: str = "record") -> tuple[str, str] | None:
        """Return the two parts of `alarm`: the finding, and the first fault with its remedy.

        Returns None if there is no alarm.
        """
        dead = self.dead
        if not dead or dead <= MOST_DEAD * self.read:
            return None
        reason, first = self.reasons()[0]
        place = f"{first.log} offset" if first.log else each
        whole = (
            f"every {each} is a dead letter ({dead:,})"
            if dead >= self.read
            else f"{dead:,} of {self.read:,} {each}s are dead letters"
        )
        most = "" if first.count == dead else "most of them "
        return f"{whole}, {most}with reason {reason}; {place} {first.offset}", first.detail

    # -- as plain values, for a worker's answers ---------------------------------------------------

    def plain(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "reasons": {reason: astuple(dead) for reason, dead in self.reasons()},
        }


def join_counts(parts: Iterable[Mapping[str, Any]]) -> Deaths:
    """Return the sum of several dead-letter counts, each in the form that `plain` returns."""
    whole = Deaths()
    for part in parts:
        reasons = {reason: DeadReason(*values) for reason, values in part["reasons"].items()}
        whole.join(Deaths("", part["read"], _reasons=reasons))
    return whole
