"""The causes of being late that MERGE decides."""

from __future__ import annotations

from topology.model.late import CAUSES

AT_MERGE = frozenset(word for word, cause in CAUSES.items() if "merge" in cause.decided_in)
