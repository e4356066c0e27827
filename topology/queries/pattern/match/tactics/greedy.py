"""LOOP GREEDY: tests that a match has all its group could take, except under MATCHES ONE.

A match is valid only if no entry between two bounds fits the greedy group. The lower bound is the
group's last entry. If the group is absent, it is the last entry before the group, or the match's
first entry if there is none. The upper bound is the first entry after the group, or the end of the
window if there is none. The first entry after the group must not fit the group either, because an
entry that fits both belongs to the group.

An entry *fits* if the group could take it next. It must be in order, within the group's maximum,
contiguous if the step requires it, and not ended by UNTIL. The conditions must hold with the
entries that the match has before it. "Before" is by corrected timestamp, or by key with TIES BY
KEY. Entries that the match has elsewhere (AND) are already taken.

The test is made at the step that closes the group. For groups that are never closed, it is made at
the end of the match. MATCHES ONE does not need it, because its walk lets the group take all it can
(`walk`).

Cost: a few bisections for each such step. Each entry of the group's index between the bounds is
looked at, up to the first that fits.
"""

from __future__ import annotations

from topology.queries.pattern.match.evaluation import Place, StepBudget
from topology.queries.pattern.match.tactics.rules import RunRules
from topology.queries.pattern.store.entry import Entry, key_of


class Greed:
    """The greedy groups of an alternative, tested in one partition."""

    def __init__(self, rules: RunRules, place: Place, budget: StepBudget) -> None:
        self._rules = rules
        self._budget = budget
        self._place = place
        self.groups = [j for j, part in enumerate(rules.components) if part.greedy]
        self.indexes = place.components[rules.number]

    def forbids(
        self, bound: list[list[Entry]], first: Entry, j: int = -1, entry: Entry | None = None
    ) -> bool:
        """Return whether a greedy group forbids the step into component `j`, or the match's end.

        `entry` is the entry of the step, which has not been taken yet; None for the end.
        """
        rules = self._rules
        return any(
            (entry is None or g in rules.before[j])
            and not rules.is_closed(bound, g)
            and self._leaves_out(bound, g, first, entry)
            for g in self.groups
        )

    def _leaves_out(
        self, bound: list[list[Entry]], g: int, first: Entry, successor: Entry | None
    ) -> bool:
        rules, index = self._rules, self.indexes[g]
        if len(bound[g]) >= rules.maximum[g]:
            return False
        lasts = bound[g][-1:] or [bound[i][-1] for i in rules.before[g] if bound[i]]
        low = rules.begin(bound, g, index, max(lasts, key=key_of, default=first))
        if successor is None:
            high = index.count_up_to(first.time_ns + rules.within_ns)
        else:
            high = rules.count_before(index, successor)
        if any(self._fits(bound, g, entry) for entry in index.entries[low:high]):
            return True
        if successor is None or index.find(successor) < 0:
            return False
        return self._fits(bound, g, successor)

    def _fits(self, bound: list[list[Entry]], g: int, entry: Entry) -> bool:
        rules = self._rules
        self._budget.steps += 1
        if not rules.alternative.is_linear:
            if any(entry is one for entries in bound for one in entries):
                return False
            bound = [[one for one in entries if one.key < entry.key] for entries in bound]
        if rules.is_ender(bound, g, entry):
            return False
        if rules.find_group_end(bound, g, self._place, entry, self._budget) is not None:
            return False
        if rules.edge(bound, g) == "strict":
            lasts = [entries[-1] for entries in bound if entries]
            if lasts and self._place.entry_after(max(lasts, key=key_of)) is not entry:
                return False
        return rules.would_hold(bound, g, entry)
