"""Build chains of operators for tests, without a topology file."""

from __future__ import annotations

from topology.base.operator import Operator
from topology.stage.chain import Chain
from topology.stage.ledger import Ledger
from topology.stage.node import Node


def chained(*operators: tuple[str, Operator]) -> Chain:
    """Return the chain of these operators by name; their places are 1, 2, 4, and so on."""
    ledger = Ledger()
    return Chain(
        [
            Node(name, operator, 1 << number, f"{name}/", ledger)
            for number, (name, operator) in enumerate(operators)
        ]
    )
