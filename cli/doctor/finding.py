"""Defines the finding, a fault of a cluster that `inorder doctor` reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """The severity of a fault: an error stops a stage or loses data, and a warning may do so."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a cluster: its place, its description and its remedy."""

    weight: Weight
    where: str
    what: str
    remedy: str


def error(where: str, what: str, remedy: str) -> Finding:
    """Return a finding for a fault that stops a stage or loses data."""
    return Finding(Weight.ERROR, where, what, remedy)


def warning(where: str, what: str, remedy: str) -> Finding:
    """Return a finding for a fault that may stop a stage or lose data."""
    return Finding(Weight.WARNING, where, what, remedy)
