"""Looks up the schemas that a batch needs before it is read, so the operators need not wait.

* If a registry does not answer, it is asked again until it does. The partition waits meanwhile and
  is not ready, and no record is lost; `faults` has the reason.
* A registry that denies access ends the process (`RegistryRefuses`).
* An unknown id is requested again while `PATIENCE_S` lasts, because the nodes of a registry learn
  of a schema one after the other. Then its values are dead letters for `UNKNOWN_S`, with the reason
  `schema_unknown`. The patience is refilled slowly, so ids that strangers invent cost at most a
  tenth of the time.
* Values are dead letters, too, if none of their schema's subjects is named in the topology file.
  After `UNKNOWN_S` the schema is requested again, because it may have been registered under one of
  them.
* An invalid schema, or one beyond a bound, is `schema_refused`.

One look-up is in flight at a time, and others take their turn before it is repeated. Bound:
`MAX_KEPT` answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from agents.registry import client
from agents.registry.client import FoundSchema, RegistryAway
from codec.values.registered import (
    SCHEMA_REFUSED,
    SCHEMA_UNKNOWN,
    Decoders,
    RegisteredSchemas,
    make_unknown_fault,
)
from codec.values.schema_fault import SchemaFault
from codec.values.schemas import registered_decoders
from topology.records.values import ValueFault

log = logging.getLogger(__name__)

PATIENCE_S: Final = 30.0
PATIENCE_BACK: Final = 0.1
"""Seconds of patience that are regained per second."""
UNKNOWN_S: Final = 60.0
MAX_KEPT: Final = 2_000
SHORTEST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
LOG_AFTER_S: Final = 10.0


Place = tuple[str, int, str | None]
"""A registry, the id of a schema there, and the reader's schema of the values, if any."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer for an id: the decoders by its schema, or the reason why there are none.

    `subjects` are the subjects that have the schema; None for an id without a schema. `at_s` is the
    monotonic time of the answer.
    """

    decoders: Decoders | ValueFault
    subjects: frozenset[str] | None
    at_s: float = field(default_factory=time.monotonic)

    def is_valid_for(self, table: RegisteredSchemas) -> bool:
        """Return whether the answer is still valid for this table, so that no request is needed."""
        if self.subjects is not None and table.is_accepted(self.subjects):
            return True
        return time.monotonic() < self.at_s + UNKNOWN_S


class SchemaFeed:
    """The schemas that a process has looked up; await `reach` before each batch.

    `faults` describes the registries that do not answer while a partition waits for them.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._answers: dict[Place, _Answer] = {}
        self._turn = asyncio.Lock()
        self._most_patience_s = self._patience_s = patience_s
        self._patience_at_s = time.monotonic()
        self._away: dict[str, str] = {}
        self._waiting: Counter[str] = Counter()
        """Number of waiting look-ups of each registry."""

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(self._away.values())

    async def reach(self, table: RegisteredSchemas, values: Iterable[bytes | None]) -> None:
        """Look up the schemas that these values need, and add the answers to `table`."""
        for number in table.find_unresolved(values):
            answer = await self._look_up((table.registry, number, table.reader), table)
            if answer.subjects is not None and not table.is_accepted(answer.subjects):
                others = ", ".join(sorted(answer.subjects)[:3]) or "no subject"
                detail = (
                    f"schema {number} is registered under {others}; name it in `subjects` to use it"
                )
                table.refuse(number, ValueFault(SCHEMA_UNKNOWN, detail))
            elif isinstance(answer.decoders, ValueFault):
                table.refuse(number, answer.decoders)
            else:
                table.learn(number, answer.decoders)

    async def resolve_records(
        self, tables: Iterable[RegisteredSchemas], records: Collection[Any]
    ) -> None:
        """Call `reach` for the values and keys of records, in each of the tables."""
        for table in tables:
            await self.reach(
                table, (part for each in records for part in table.parts(each.value, each.key))
            )

    async def _look_up(self, place: Place, table: RegisteredSchemas) -> _Answer:
        """Return the answer for an id, from memory or from the registry."""
        registry, number, _ = place
        pause_s, logged_s = SHORTEST_PAUSE_S, 0.0
        self._waiting[registry] += 1
        try:
            while True:
                async with self._turn:
                    known = self._answers.get(place)
                    if known is not None and known.is_valid_for(table):
                        return known
                    try:
                        found = await client.schema_of(registry, number)
                        return self._store(
                            place, _Answer(_make_decoders(place, found), found.subjects)
                        )
                    except client.ExcessiveSchema as excessive:
                        fault = ValueFault(SCHEMA_REFUSED, f"schema {number} {excessive}")
                        return self._refuse(place, fault)
                    except RegistryAway as away:
                        self._away[registry] = f"waits for the schema registry: {away}"
                        if time.monotonic() - logged_s > LOG_AFTER_S or not logged_s:
                            logged_s = time.monotonic()
                            log.warning("waiting for schema %d: %s", number, away)
                    except client.NoSuchSchema:
                        self._away.pop(registry, None)
                        if not self._spend_patience(pause_s):
                            return self._refuse(place, make_unknown_fault(number, registry))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            self._waiting[registry] -= 1
            if not self._waiting[registry]:
                del self._waiting[registry]
                self._away.pop(registry, None)

    def _refuse(self, place: Place, fault: ValueFault) -> _Answer:
        log.warning("%s: %s; its values become dead letters", place[0], fault.detail)
        return self._store(place, _Answer(fault, None))

    def _store(self, place: Place, answer: _Answer) -> _Answer:
        """Store the answer and return it; drop the oldest one if there are `MAX_KEPT`."""
        self._away.pop(place[0], None)
        if len(self._answers) >= MAX_KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[place] = answer
        return answer

    def _spend_patience(self, pause_s: float) -> bool:
        """Return whether the remaining patience covers this pause; if so, subtract the pause."""
        now_s = time.monotonic()
        back_s = PATIENCE_BACK * (now_s - self._patience_at_s)
        self._patience_s = min(self._most_patience_s, self._patience_s + back_s)
        self._patience_at_s = now_s
        if self._patience_s < pause_s:
            return False
        self._patience_s -= pause_s
        return True


def _make_decoders(place: Place, found: FoundSchema) -> Decoders | ValueFault:
    """Return the decoders by the schema, or the reason why there are none."""
    registry, number, reader = place
    try:
        return registered_decoders(found.kind, found.schema, found.referred, reader)
    except SchemaFault as fault:
        detail = f"schema {number} of {registry} {fault}"
        log.warning("%s", detail)
        return ValueFault(SCHEMA_REFUSED, detail)
