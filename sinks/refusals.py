"""Tells a store that refuses everything from results that it cannot hold.

A refusal has a *cause*, such as the name of a constraint. The store is at fault if `IN_A_ROW`
results were refused for one cause, and none was accepted since the first of them. For example, a
partition is missing, or a column is required now. The sink then waits, as for a store that is away,
and writes no dead letters. The operator repairs the store. If the results are at fault after all,
the operator names the cause, and its results are set aside as dead letters (`--set-aside`).

Refusals without a cause, for example of a text that no table can hold, do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from sinks.sink import Refused, SinkUnavailable

IN_A_ROW: Final = 20


class Refusals:
    """Counts the refusals since a store last accepted a result.

    `set_aside` are the causes whose results become dead letters however many they are.
    """

    def __init__(self, set_aside: Iterable[str] = ()) -> None:
        self._set_aside = frozenset(set_aside)
        self._since = Counter[str]()

    def judge(self, count: int, refused: Sequence[Refused]) -> None:
        """Count the refusals of a batch of `count` results; raise SinkUnavailable at the bound."""
        if len(refused) < count:
            self._since.clear()
            return
        self._since.update(each.cause for each in refused if each.cause)
        for each in refused:
            number = self._since[each.cause] if each.cause else 0
            if number >= IN_A_ROW and each.cause not in self._set_aside:
                raise SinkUnavailable(
                    f"the store has refused {number} results in a row, and accepted none between:"
                    f" {each.detail} ({each.cause}); repair the store, or start the sink with"
                    f" --set-aside {each.cause} to make dead letters of these results"
                )
