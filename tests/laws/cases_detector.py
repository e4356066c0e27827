"""Detectors, behind the merge and ahead of it, each with the streams it is run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.laws.cases import Case
from tests.laws.streams import MS
from tests.laws.streams_between import accepted, merge_of, merged
from tests.laws.told import copies
from tests.topology.speculate.oracle import Counter
from topology.model.event import Event
from topology.speculate.ahead import Ahead
from topology.speculate.config import Answer, DetectorConfig
from topology.speculate.detector import Detector, behaviour_of
from topology.speculate.item import Seen
from topology.speculate.operator import Detecting
from topology.speculate.queries import DetectorQueries, Holding

_CONFIG = DetectorConfig(
    "q", "d", correct_for_ns=100 * MS, newcomers_ns=30 * MS, max_events=500, key=("key",)
)


def _pairs(state: tuple[int, ...], event: Seen) -> tuple[tuple[int, ...], Any]:
    """The last three of a key, told at every third; quiet for 20 ms, they are forgotten."""
    state = (*state, event.time_ns)[-3:]
    return state, {"since": state[0]} if len(state) == 3 and event.seq % 3 == 0 else None


def _quiet(state: tuple[int, ...], time_ns: int) -> tuple[tuple[int, ...], Any]:
    return (), {"quiet": len(state)}


PURE = Detector(_pairs, (), lambda state: state[-1] + 20 * MS if state else None, _quiet)


class Odd(Counter):
    def on_event(self, event: Seen) -> Any:
        event = Seen("ABC"[event.seq % 3], event.time_ns, None, seq=event.seq)
        yield from super().on_event(event)


def operator_of(answer: Answer, *, is_ahead: bool) -> Any:
    config = replace(_CONFIG, answer=answer, is_ahead=is_ahead)
    other = replace(config, query="other", key=None, finals=True)
    detecting = [
        Detecting("default", config, behaviour_of(PURE)),
        Detecting("default", other, behaviour_of(Odd)),
    ]
    holding = Holding(4)
    queries = DetectorQueries(detecting, holding)
    return Ahead(merge_of(), queries, holding) if is_ahead else queries


def _case(answer: Answer, *, is_ahead: bool) -> Case:
    where = "ahead" if is_ahead else "ordered"

    def stream(seed: int) -> list[Event]:
        return copies(accepted(seed)) if is_ahead else merged(seed)

    return Case(
        f"detector, {where}, {answer}",
        lambda: operator_of(answer, is_ahead=is_ahead),
        stream,
        stamped_from=1,
        replays=False,
        retains=True,
        reorders=False,
    )


DETECTING = [
    _case("final", is_ahead=False),
    _case("early", is_ahead=False),
    _case("final", is_ahead=True),
    _case("early", is_ahead=True),
    _case("speculate", is_ahead=True),
]
