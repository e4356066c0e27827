"""Work that must leave nothing in memory (tests/laws/test_leaks.py), by name.

Run as a program, this module repeats the named work and prints the counts that grow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final

from agents.stage.arrangement import make_input_inlet
from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import SequencedInlet, UnknownPartition
from inorder.engine import Ordering, RawEvent, Record, StateUnreadable, parse
from tests.agents.records import SOUND, FakeRecord
from tests.agents.stage.test_inlet import READER, raw, sequenced
from tests.agents.stage.test_mapped_inlet import topology_of
from tests.end_to_end.bad_input import CASES as BAD_INPUT
from tests.inorder.test_ordering import OPEN, Fed, jumps, push, world
from tests.kit.conformance import cases_of
from tests.kit.leaks import leaks
from tests.kit.runs import cut
from tests.laws.all_cases import ALL
from tests.laws.test_laws import Run
from tests.seeds import is_todays
from tests.topology.queries.pattern.language.test_check import ERRORS
from tests.topology.queries.pattern.language.test_parse import REFUSED
from tests.topology.spelling.test_problem import BROKEN
from topology.config import HeaderConfig, Topology
from topology.queries.detector.values import NotAValue, pack
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.tree.errors import QueryRefused
from topology.records.header_writer import HeaderWriter
from topology.spelling.problem import TopologyError

NOW_NS: Final = 1_700_000_000 * 10**9
SEEDS: Final = range(3)
TODAYS: Final = [case for place, case in enumerate(ALL) if is_todays(place, 3)]
LARGE: Final = (1 << 63) - 1_000
RECURSION: Final = 300
"""The depth of calls at which a nested file is refused; its time grows with the square."""


def broken_files() -> None:
    sys.setrecursionlimit(RECURSION)
    for text, _, _ in BROKEN[::4]:
        with suppress(TopologyError):
            parse(text)


def refused_patterns() -> None:
    for text, *_ in REFUSED:
        with suppress(QueryRefused):
            parse_query(text)
    for text, *_ in ERRORS:
        with suppress(QueryRefused):
            check(parse_query(f"PATTERN {text}"))


def headers_written() -> None:
    """Write headers of events as they came, and with other numbers up to 64 bits."""
    writer = HeaderWriter(HeaderConfig())
    for number in (0, 7, LARGE):
        said = tuple((name, b"%d" % number if name == "seqNum" else v) for name, v in SOUND)
        (event,) = raw().read([FakeRecord(9, said)], ArrivalClock(0)).events
        for event.seq in (number, LARGE + 1):
            for event.epoch in (0, number):
                for kept in (said, (*said, ("epoch", b"%d" % LARGE)), ()):
                    writer.stamp(event, kept, 1)
                    writer.write_ordered(event, kept)
                writer.write_control(event, 1)


def dead_letters() -> None:
    clock = ArrivalClock(0)
    for number, case in enumerate(BAD_INPUT):
        for seq in range(3):
            value, headers = case.record(f"s{number}", seq, NOW_NS)
            raw().read([FakeRecord(seq, tuple(headers), value, case.key)], clock)
    for topology, value in _mapped():
        make_input_inlet(topology, "t", (), 0).read([FakeRecord(9, (), value)], clock)
    with suppress(UnknownPartition):
        SequencedInlet(READER, 4).read([sequenced(4)], clock)
    for odd in (object(), [object()], "\ud800"):
        with suppress(NotAValue):
            pack(odd, {})


@cache
def _mapped() -> list[tuple[Topology, Any]]:
    return [(topology_of(mapping), value) for _, mapping, value, _ in cases_of("json")]


@cache
def _chain() -> tuple[Topology, list[list[Fed]]]:
    """Return a topology with all operators, and its inputs."""
    topology = parse(OPEN.replace("trust", "estimate"), detectors={"jumps": jumps()})
    worlds = [world("queries", seed) for seed in SEEDS]
    return topology, [*worlds, [_with_large_numbers(each) for each in worlds[0]]]


def _with_large_numbers(each: Fed) -> Fed:
    """Return the input with an epoch and a number near the bound of 64 bits."""
    given = each.input
    if not isinstance(given, RawEvent):
        return each
    return each._replace(input=replace(given, seq=LARGE + (given.seq or 0), epoch=LARGE))


def a_chain() -> int:
    topology, worlds = _chain()
    return sum(len(_told(Ordering(topology), fed)) for fed in worlds)


def _told(order: Ordering, fed: Iterable[Fed]) -> list[Record]:
    return [record for each in fed for record in push(order, each)] + order.close()


def snapshots() -> None:
    topology, worlds = _chain()
    for fed in worlds:
        order = Ordering(topology)
        for number, each in enumerate(fed):
            push(order, each)
            if number % 20 == 0:
                state, order = order.snapshot(), Ordering(topology)
                with suppress(StateUnreadable):
                    order.restore(state[:-3] + b"abc")
                order.restore(state)
        order.close()


def operators() -> None:
    """Run a third of the laws' settings each day, with restarts."""
    for case in TODAYS:
        run = Run(case, 0, cut)
        for number, _ in enumerate(run.steps()):
            if number % 5 == 0:
                run.restart()
        run.end()


WORK: Final[dict[str, Callable[[], object]]] = {
    work.__name__: work
    for work in (
        *(broken_files, refused_patterns, dead_letters),
        *(headers_written, a_chain, snapshots, operators),
    )
}

if __name__ == "__main__":
    print(*leaks(WORK[sys.argv[1]]), sep="\n", end="")
