"""Build chains of operators for tests, without a topology file."""

from __future__ import annotations

from topology.flow.chain import Chain
from topology.flow.ledger import Ledger
from topology.flow.node import Node
from topology.model.operator import Operator


def chained(*operators: tuple[str, Operator]) -> Chain:
    """Return the chain of these operators by name; their places are 1, 2, 4, and so on."""
    ledger = Ledger()
    return Chain(
        [
            Node(name, operator, 1 << number, f"{name}/", ledger)
            for number, (name, operator) in enumerate(operators)
        ]
    )
