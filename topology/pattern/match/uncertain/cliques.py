"""The largest sets of which every two go together: maximal cliques (Bron and Kerbosch, 1973).

With a pivot, and sets as the bits of an integer. What lies in order makes few of them; at worst
there are 3^(n/3), so each step counts against the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology.pattern.match.evaluation import StepBudget


def cliques(together: Sequence[Sequence[bool]], budget: StepBudget) -> Iterator[list[int]]:
    """`together` is symmetric. Without nodes the one clique is empty."""
    count = len(together)
    beside = [
        sum(1 << other for other in range(count) if other != node and together[node][other])
        for node in range(count)
    ]
    waiting = [(0, (1 << count) - 1, 0)]
    while waiting and not budget.is_spent:
        budget.steps += 1
        chosen, open_, closed = waiting.pop()
        if not open_:
            if not closed:
                yield list(_bits(chosen))
            continue
        pivot = max(_bits(open_ | closed), key=lambda node: (beside[node] & open_).bit_count())
        for node in _bits(open_ & ~beside[pivot]):
            bit = 1 << node
            waiting.append((chosen | bit, open_ & beside[node], closed & beside[node]))
            open_ &= ~bit
            closed |= bit


def _bits(nodes: int) -> Iterator[int]:
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest
