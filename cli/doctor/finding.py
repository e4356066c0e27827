"""One fault of a cluster, as `inorder doctor` reports it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """`error`: a stage stops, or something is lost. `warning`: it may be."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Where, what, and what to do."""

    weight: Weight
    where: str
    what: str
    remedy: str


def error(where: str, what: str, remedy: str) -> Finding:
    """Return what stops a stage, or loses something."""
    return Finding(Weight.ERROR, where, what, remedy)


def warning(where: str, what: str, remedy: str) -> Finding:
    """Return what may do so."""
    return Finding(Weight.WARNING, where, what, remedy)
