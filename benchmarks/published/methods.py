"""Builds topologies whose streams and queries use published methods in place of the defaults.

A stream can name a method for `reorder`, `clock` and `merge`, and a query with a quality target a
waiting strategy:

| operator  | name     | method                                                             |
|-----------|----------|--------------------------------------------------------------------|
| `reorder` | `thesis` | S. Rajendran's wait for a gap                                      |
|           | `rfc`    | the same by RFC 6298                                               |
|           | `mp`     | MP-K-Slack, under `rule: time`                                     |
| `clock`   | `thesis` | the quickest round of time sync, and half its round trip as error  |
| `merge`   | `thesis` | the wait for a silent source by its pace                           |

`benchmarks.published.waits` has the names of the strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import yaml

from benchmarks.published.clock import RoundTripClock
from benchmarks.published.merge import PacedMerge
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.reorder import PacedReorder
from benchmarks.published.waits import QUALITY
from topology.answer.settings import WithTarget
from topology.base.operator import Operator
from topology.config import Topology
from topology.config import parse as parse_file
from topology.stage.build import Site, by_time

SECTION: Final = "experimental"
"""The section of a stream or a query in which a text names methods; no topology file has it."""

Build = Callable[[Site], Operator]


def _reorder(site: Site, *, is_rfc: bool) -> Operator:
    return PacedReorder(site.stream, site.config.reorder, is_rfc=is_rfc)


def _reorder_by_time(site: Site) -> Operator:
    max_k_ns = site.config.reorder.max_wait_ns
    return by_time(site, partial(MPKSlack, measure="arrival", max_k_ns=max_k_ns, idle_ns=0))


def _clock(site: Site) -> Operator:
    return RoundTripClock(site.config.clock, site.table)


def _merge(site: Site) -> Operator:
    return PacedMerge(site.stream, site.config.merge)


METHODS: Final[Mapping[str, Mapping[str, Build]]] = {
    "reorder": {
        "thesis": partial(_reorder, is_rfc=False),
        "rfc": partial(_reorder, is_rfc=True),
        "mp": _reorder_by_time,
    },
    "clock": {"thesis": _clock},
    "merge": {"thesis": _merge},
}


def builders(**methods: str) -> dict[str, Build]:
    """Return the value of `StreamConfig.built_by` for the named method of each operator."""
    return {operator: METHODS[operator][name] for operator, name in methods.items()}


def parse(text: str, parse_plain: Callable[[str], Topology] = parse_file) -> Topology:
    """Return the topology of a text that may name published methods.

    `parse_plain` reads the text without the names.
    """
    if SECTION not in text:
        return parse_plain(text)
    document: dict[str, Any] = yaml.safe_load(text)
    of_streams, of_queries = (_take(document.get(each) or {}) for each in ("streams", "queries"))
    topology = parse_plain(yaml.safe_dump(document))
    streams = {
        name: stream.model_copy(update={"built_by": builders(**of_streams.get(name, {}))})
        for name, stream in topology.streams.items()
    }
    queries = dict(topology.queries)
    for name, methods in of_queries.items():
        query = queries[name]
        assert isinstance(query, WithTarget), f"{name} can have no target"
        assert query.quality is not None, f"{name} has no target"
        quality = query.quality.model_copy(update={"built_by": QUALITY[methods["quality"]]})
        queries[name] = query.model_copy(update={"quality": quality})
    return topology.model_copy(update={"streams": streams, "queries": queries})


def _take(sections: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Remove the names of methods from streams or queries, and return them."""
    return {name: each.pop(SECTION) for name, each in sections.items() if each and SECTION in each}
