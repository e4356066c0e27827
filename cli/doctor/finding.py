"""Defines the finding that `inorder doctor` reports about a cluster: a fault or a note."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """The severity: an error stops a stage or loses data, a warning may do so, a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a cluster: its place, its description and its remedy, "" for a note."""

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


def note(where: str, what: str) -> Finding:
    """Return a finding without harm, which needs no remedy."""
    return Finding(Weight.NOTE, where, what, "")
