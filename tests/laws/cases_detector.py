"""Detectors, speculative and after the merge, each with the streams on which it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kit.chains import chained
from tests.kit.events import copies
from tests.kit.queries import Output, window_query
from tests.laws.cases import Case
from tests.laws.streams import MS
from tests.laws.streams_between import accepted, merge_of, merged, written_again
from tests.topology.queries.detector.oracle import Counter
from topology.answer.query.queries import Queries
from topology.answer.rules import Answer
from topology.base.event import Event
from topology.base.outcome import Step
from topology.queries.detector.detector import Detector, behaviour_of
from topology.queries.detector.item import Seen
from topology.queries.detector.operator import Detecting
from topology.queries.detector.queries import DetectorQueries
from topology.queries.detector.result_event import UpstreamQuery
from topology.queries.detector.settings import DetectorQuery, Inputs
from topology.queries.window.operator import Windows
from topology.stage.chain import Chain

_SETTINGS = DetectorQuery(
    name="q",
    detector="d",
    changes_for_ns=100 * MS,
    new_source_allowance_ns=30 * MS,
    max_events=500,
    key="payload.key",
)


def _pairs(state: tuple[int, ...], event: Seen) -> tuple[tuple[int, ...], Any]:
    """Report the last three events of a key at every third event; 20 ms of silence clear them."""
    state = (*state, event.time_ns)[-3:]
    return state, {"since": state[0]} if len(state) == 3 and event.seq % 3 == 0 else None


def _quiet(state: tuple[int, ...], time_ns: int) -> tuple[tuple[int, ...], Any]:
    return (), {"quiet": len(state)}


PURE = Detector(_pairs, (), lambda state: state[-1] + 20 * MS if state else None, _quiet)


class Odd(Counter):
    def on_event(self, event: Seen) -> Any:
        event = Seen("ABC"[event.seq % 3], event.time_ns, None, seq=event.seq)
        yield from super().on_event(event)


def operator_of(answer: Answer, *, is_speculative: bool) -> Any:
    query = _SETTINGS.model_copy(update={"answer": answer})
    other = query.model_copy(update={"name": "other", "key": None, "finals": True})
    inputs = Inputs(is_speculative=is_speculative)
    detecting = [
        Detecting("default", query, behaviour_of(PURE), inputs),
        Detecting("default", other, behaviour_of(Odd), inputs),
    ]
    queries = DetectorQueries(detecting)
    return Ahead(queries) if is_speculative else queries


class Ahead:
    """MERGE, and detectors that read the events that it accepts; at its end it behaves like a
    stage.
    """

    keeps_passed = True

    def __init__(self, queries: DetectorQueries) -> None:
        self._chain = chained(("merge", merge_of()), ("detector", queries))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def on_end(self, now_ns: int) -> Step:
        step = self._chain.on_time(now_ns)
        step.add(self._chain.on_end(now_ns))
        return step


def _after(state: str, event: Seen) -> tuple[str, Any]:
    """Report which source follows which, for events and for results of the two queries below."""
    return event.source, {"first": state, "then": event.source}


def _reader(name: str, answer: Answer, inputs: Inputs, **settings: Any) -> Detecting:
    changed = {"name": name, "answer": answer, "key": None, **settings}
    query = _SETTINGS.model_copy(update=changed)
    return Detecting("default", query, behaviour_of(Detector(_after, "")), inputs)


def chain_of(answer: Answer, *, is_speculative: bool) -> Any:
    """Return a detector that reads two others, and one above them that reads it, one of the two,
    and all events.
    """
    below = operator_of(answer, is_speculative=is_speculative)
    queries = below.nodes[-1].operator if is_speculative else below
    detecting = list(queries._queries)
    reads = (UpstreamQuery("q", "q", 1, is_keyed=True), UpstreamQuery("other", "other", 1))
    of_pairs = Inputs(is_speculative, reads, reads_stream=False)
    of_all = Inputs(is_speculative, (reads[0], UpstreamQuery("pairs", "pairs", 2)))
    detecting.insert(0, _reader("all", answer, of_all, max_events=400))
    detecting.append(_reader("pairs", answer, of_pairs, max_events=400))
    chain = DetectorQueries(detecting)
    return Ahead(chain) if is_speculative else chain


class Reader:
    """A chain without its windows' results, because results of one instant have no fixed order."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def on_batch(self, events: Any, now_ns: int) -> Step:
        return _without_windows(self._chain.on_batch(events, now_ns))

    def on_time(self, now_ns: int) -> Step:
        return _without_windows(self._chain.on_time(now_ns))

    def on_end(self, now_ns: int) -> Step:
        return _without_windows(self._chain.on_end(now_ns))


def _without_windows(step: Step) -> Step:
    step.results = [each for each in step.results if each.query != "w"]
    return step


def behind_windows(answer: Answer) -> Any:
    """Return a chain with windows, and a detector that reads them."""
    windows = window_query(
        "w",
        "tumbling",
        (Output("n", "count"),),
        40 * MS,
        40 * MS,
        changes_for_ns=100 * MS,
        new_source_allowance_ns=30 * MS,
    )
    inputs = Inputs(reads=(UpstreamQuery("w", "w", 0),), reads_stream=False)
    reader = DetectorQueries([_reader("q", answer, inputs)])
    return Reader(chained(("window", Queries([Windows("default", windows)])), ("detector", reader)))


def _case(
    answer: Answer,
    *,
    is_speculative: bool,
    make: Callable[..., Any] = operator_of,
    what: str = "",
    before: Callable[[int], list[Event]] = accepted,
) -> Case:
    where = "ahead" if is_speculative else "ordered"

    def stream(seed: int) -> list[Event]:
        return copies(before(seed)) if is_speculative else merged(seed)

    return Case(
        f"detector{what}, {where}, {answer}",
        lambda: make(answer, is_speculative=is_speculative),
        stream,
        stamped_from=1,
        replays=False,
        retains=True,
        reorders=False,
    )


CASES = [
    _case("final", is_speculative=False),
    _case("early", is_speculative=False),
    _case("final", is_speculative=True),
    _case("early", is_speculative=True),
    _case("speculate", is_speculative=True),
    _case("early", is_speculative=True, what=" of what is written again", before=written_again),
    _case("early", is_speculative=False, make=chain_of, what="s in a chain"),
    _case("speculate", is_speculative=True, make=chain_of, what="s in a chain"),
    _case(
        "early",
        is_speculative=False,
        make=lambda a, is_speculative: behind_windows(a),
        what=" of windows",
    ),
]
