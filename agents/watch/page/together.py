"""The views of several workers as one, bounded as each of them is.

Counts are added up, what waits is sorted anew, a query stands with the worker that keeps its
promise least. A worker that does not answer is named among `workers`, and what it would have told
is missing: `workers` says whose counts are in a view, so that whoever works out rates compares only
views of the same workers.

Proved by: tests/agents/watch/page/test_together.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.watch.page.lanes import lanes
from agents.watch.page.view import MAX_PARTITIONS, MAX_QUERIES, View

NAME: Final = "name"
TEXT: Final = ("stage", "topic")


def together(views: Sequence[View], silent: Mapping[str, str]) -> View:
    """`views`: each with the `name` of its worker. `silent`: who does not answer, and why."""
    return {
        "health": _health(views, silent),
        "stages": _added((stage for view in views for stage in view["stages"]), "stage"),
        "streams": _streams(views),
        "sources": _sources([view["sources"] for view in views]),
        "queries": _queries(views),
        "reasons": {
            kind: _sum(view["reasons"][kind] for view in views) for kind in ("late", "dead")
        },
        "workers": [
            *({NAME: view[NAME], **view["health"]} for view in views),
            *({NAME: name, "fault": why} for name, why in sorted(silent.items())),
        ],
    }


def _health(views: Sequence[View], silent: Mapping[str, str]) -> View:
    """All are; a reason names its worker where there are several."""
    told: View = {}
    for path in ("live", "ready"):
        several = len(views) + len(silent) > 1
        reasons = [
            f"{view[NAME]}: {reason}" if several else reason
            for view in views
            for reason in view["health"][path]["reasons"]
        ]
        if path == "ready":
            reasons += [f"{name}: {why}" for name, why in sorted(silent.items())]
        told[path] = {"ok": not reasons, "reasons": reasons}
    return told


def _added(parts: Iterable[Mapping[str, Any]], key: str) -> list[View]:
    """By that key in the order of appearance; numbers added, of texts the first that says one."""
    found: dict[str, View] = {}
    for part in parts:
        into = found.setdefault(part[key], {})
        for name, value in part.items():
            if name in TEXT:
                into[name] = into.get(name) or value
            else:
                into[name] = into.get(name, 0) + value
    return list(found.values())


def _sum(counts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    summed: dict[str, float] = {}
    for each in counts:
        for name, value in each.items():
            summed[name] = summed.get(name, 0.0) + value
    return summed


def _streams(views: Sequence[View]) -> list[View]:
    found = [stream for view in views for stream in view["streams"]]
    found.sort(key=lambda each: (each["stream"], each["stage"], each["partition"]))
    return found[:MAX_PARTITIONS]


def _sources(parts: Sequence[View]) -> View:
    waiting, clocks, troubled = (
        [each for part in parts for each in part.get(name, ())]  # an older worker tells no troubled
        for name in ("waiting", "clocks", "troubled")
    )
    return {
        "known": sum(part["known"] for part in parts),
        "waiting_in_all": sum(part["waiting_in_all"] for part in parts),
        **lanes(waiting, clocks, troubled),
        "states": _sum(part["states"] for part in parts),
    }


def _queries(views: Sequence[View]) -> list[View]:
    found: dict[str, View] = {}
    for view in views:
        for query in view["queries"]:
            known = found.get(query["query"])
            if known is None:
                found[query["query"]] = dict(query)
                continue
            told = _sum((known["told"], query["told"]))
            promised = [each for each in (known, query) if each.get("achieved_ppm") is not None]
            least = min(promised, key=lambda each: each["achieved_ppm"], default=known)
            found[query["query"]] = {**least, "told": told, **_chosen(known, query)}
    return [found[name] for name in sorted(found)[:MAX_QUERIES]]


def _chosen(*parts: View) -> View:
    choosing = [part for part in parts if "ways" in part]
    if not choosing:
        return {}
    held = sum(part["held"] for part in choosing)
    return {"ways": _sum(part["ways"] for part in choosing), "held": held}
