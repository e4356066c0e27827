"""The schemas of a process, looked up before a batch is read: neither operators nor the loop wait.

* A registry that gives no answer is asked again until it does. The partition waits meanwhile, is
  not ready, and nothing of it is lost; `faults` says so.
* One that does not let us in ends the process (`RegistryRefuses`).
* An id that it does not know is asked for again while `PATIENCE_S` lasts, as registries of several
  nodes learn of a schema one after the other; then values of it are dead for `UNKNOWN_S`,
  `schema_unknown`. The patience comes back slowly, so ids that strangers make up cost a tenth of
  the time at most.
* A schema of other subjects than those named is dead as well, and one that is none or has no bound,
  `schema_refused`.

One look-up is in flight at a time. Bounds: `MAX_KEPT` answers, `MAX_KEPT` ids that are unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable
from typing import Any, Final, TypeVar

from agents.registry.client import FoundSchema, NoSuchSchema, RegistryAway, schema_of
from codec.values.registered import (
    SCHEMA_REFUSED,
    SCHEMA_UNKNOWN,
    RegisteredSchemas,
    unknown,
)
from codec.values.schema_fault import SchemaFault
from codec.values.schemas import registered_decoder
from topology.fields.values import Decode, ValueFault

log = logging.getLogger(__name__)

PATIENCE_S: Final = 30.0
PATIENCE_BACK: Final = 0.1
"""Seconds of patience that come back in a second."""
UNKNOWN_S: Final = 60.0
MAX_KEPT: Final = 2_000
SHORTEST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
LOG_AFTER_S: Final = 10.0
V = TypeVar("V")


class SchemaFeed:
    """`reach` before each batch. `faults`: registries that are away, while
    somebody waits for them."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._found: dict[tuple[str, int], FoundSchema] = {}
        self._decoders: dict[tuple[str, int], Decode | ValueFault] = {}
        self._unknown_until_s: dict[tuple[str, int], float] = {}
        self._turn = asyncio.Lock()
        self._most_patience_s = self._patience_s = patience_s
        self._patience_at_s = time.monotonic()
        self._away: dict[str, str] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(self._away.values())

    async def reach(self, table: RegisteredSchemas, values: Iterable[bytes | None]) -> None:
        """Return when `table` knows what can be known of the schemas of these values."""
        for number in table.unresolved(values):
            place = (table.registry, number)
            if self._unknown_until_s.get(place, 0.0) > time.monotonic():
                table.refuse(number, unknown(number, table.registry))
                continue
            async with self._turn:
                found = self._found.get(place) or await self._look_up(place)
            if found is None:
                table.refuse(number, unknown(number, table.registry))
            elif not table.subjects & found.subjects:
                others = ", ".join(sorted(found.subjects)[:3]) or "no subject"
                detail = f"schema {number} is of {others}; name it in `subjects` to read by it"
                table.refuse(number, ValueFault(SCHEMA_UNKNOWN, detail))
            else:
                self._hand_over(table, place, found)

    async def reach_for(
        self, tables: Iterable[RegisteredSchemas], records: Collection[Any]
    ) -> None:
        """`reach` for the values and keys of records, in each of the tables."""
        for table in tables:
            await self.reach(
                table, (part for each in records for part in table.parts(each.value, each.key))
            )

    def _hand_over(
        self, table: RegisteredSchemas, place: tuple[str, int], found: FoundSchema
    ) -> None:
        decoder = self._decoders.get(place)
        if decoder is None:
            try:
                decoder = registered_decoder(found.kind, found.schema, found.referred)
            except SchemaFault as fault:
                detail = f"schema {place[1]} of {place[0]} {fault}"
                log.warning("%s", detail)
                decoder = ValueFault(SCHEMA_REFUSED, detail)
            _keep(self._decoders, place, decoder)
        if isinstance(decoder, ValueFault):
            table.refuse(place[1], decoder)
        else:
            table.learn(place[1], decoder)

    async def _look_up(self, place: tuple[str, int]) -> FoundSchema | None:
        """None: the registry knows none of this id."""
        registry, number = place
        began_s, pause_s, logged_s = time.monotonic(), SHORTEST_PAUSE_S, 0.0
        try:
            while True:
                try:
                    found = await schema_of(registry, number)
                except RegistryAway as away:
                    self._away[registry] = f"waits for the schema registry: {away}"
                    if time.monotonic() - max(began_s, logged_s) > LOG_AFTER_S or not logged_s:
                        logged_s = time.monotonic()
                        log.warning("schema %d is waited for: %s", number, away)
                except NoSuchSchema:
                    if not self._is_patient(pause_s):
                        log.warning("%s has no schema %d; values of it are dead", registry, number)
                        _keep(self._unknown_until_s, place, time.monotonic() + UNKNOWN_S)
                        return None
                else:
                    _keep(self._found, place, found)
                    return found
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            self._away.pop(registry, None)

    def _is_patient(self, pause_s: float) -> bool:
        """Whether there is patience for this pause, which it takes."""
        now_s = time.monotonic()
        back_s = PATIENCE_BACK * (now_s - self._patience_at_s)
        self._patience_s = min(self._most_patience_s, self._patience_s + back_s)
        self._patience_at_s = now_s
        if self._patience_s < pause_s:
            return False
        self._patience_s -= pause_s
        return True


def _keep(table: dict[tuple[str, int], V], place: tuple[str, int], value: V) -> None:
    """Forgets the oldest at the bound."""
    if len(table) >= MAX_KEPT:
        del table[next(iter(table))]
    table[place] = value
