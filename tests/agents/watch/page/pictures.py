"""Draws the pictures of the page: `python -m tests.agents.watch.page.pictures`.

A seed makes up the answers of the stages of a plant. The tables of a partition count its late
events and gaps. Chromium draws the page of these answers, light and dark; the pictures have as few
colours as they need.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Final

from selenium.webdriver.common.by import By

from agents.watch.decisions import Decisions
from agents.watch.page.view import View, view
from agents.watch.unhealthy import EXPLAINED, UnhealthySources
from cli.local.poll import wait_until
from tests import ROOT
from tests.agents.watch.page.browser import WIDE, chromium, show_at
from tests.agents.watch.page.many import NOW_NS, healthy
from tests.agents.watch.page.serves import up
from topology.model.event import Event
from topology.model.outcome import Gap, Late

S: Final = 1_000_000_000
MS: Final = 1_000_000
KINDS: Final = ("press", "oven", "saw", "lathe", "robot")
RATE: Final = 8
"""Events a second of a source."""
VIEWS: Final = 12
COLOURS: Final = 256
SOURCES: Final = 100
HEIGHT: Final = 935
GAUGES: Final = {"records_held", "input_lag_records", "partitions_assigned", "input_partitions"}
UNREADABLE: Final = (
    "header `ts` is `12:00`; write an integer in ns, or RFC 3339 without leap seconds"
)
DEATHS: Final = {"ts_unreadable": [NOW_NS, 48_117, UNREADABLE, 3, "events.raw/0"]}
LINE: Final = {"at_ns": NOW_NS, "level": "warning", "text": "not ready: events.raw/0: restoring"}


def plant(sources: int, seed: int = 7) -> tuple[list[dict[str, Any]], Callable[[float], str]]:
    """What the stages explain, and their metrics after so many seconds."""
    rng = Random(seed)
    names = [
        f"{KINDS[number % len(KINDS)]}-{number // len(KINDS) + 1}" for number in range(sources)
    ]
    waiting = [lane(rng, name) for name in sorted(rng.sample(names, sources * 6 // 100))]
    clocks = [clock(rng, name) for name in names]
    worst = sorted(clocks, key=lambda each: (each["state"] == "synced", -each["error_ns"]))[:100]
    late, in_all = troubles(rng, names)
    named = {each["source"] for each in (*waiting, *late, *worst)}
    states = {
        state: sum(each["state"] == state for each in clocks)
        for state in ("synced", "stale", "unsynced", "suspect", "broken")
    }
    merge = {
        "sources": sources,
        "idle": sources // 50,
        "catching_up": sources // 300,
        "blocked": len(waiting),
        "queued": sources * 7,
        "watermark_ns": NOW_NS,
        "waits_for": [{"source": each["source"]} for each in waiting[:7]],
    }
    kept = {"target_ppm": 990_000, "achieved_ppm": 996_400, "wait_mean_ns": 410 * MS}
    streams = {
        "reorder": {
            "reorder": {"sources": sources, "waiting": waiting},
            "clock": {**states, "clocks": [each for each in clocks if each["source"] in named]},
        },
        "merge": {"merge": merge},
        "window": {"window": {"force": kept}},
    }
    told = [
        {
            "stage": stage,
            "topic": topic,
            "partition": 0,
            "now": NOW_NS,
            "next_offset": 9,
            "high_watermark": 9,
            "lag_ns": 0,
            "held": 7 * sources,
            "checkpoint_age_s": 0.1,
            "checkpoint_bytes": 41_300,
            "restore_s": 0.4,
            "late": last_late(names) if stage == "reorder" else [],
            "unmet": {},
            "deaths": {"read": 9_000, "reasons": DEATHS if stage == "reorder" else {}},
            "unhealthy": late if stage == "reorder" else [],
            "streams": {"hall": streams[stage]},
        }
        for stage, topic in (
            ("reorder", "events.raw"),
            ("merge", "events.sequenced"),
            ("window", "events.ordered"),
        )
    ]
    return told, lambda seconds: metrics(sources, seconds, in_all)


def last_late(names: list[str]) -> list[dict[str, Any]]:
    """Notes of the last events that came late."""
    decisions = Decisions()
    for number, name in enumerate(names[:3]):
        event = Event("hall", name, 0, 4_711 + number, NOW_NS, NOW_NS)
        decisions.saw([Late(NOW_NS + number * S, event, "gap", 80 * MS)])
    return decisions.late()


def lane(rng: Random, name: str) -> dict[str, Any]:
    for_ns = int(rng.expovariate(1 / 90) * MS)
    first = rng.randrange(20_000, 90_000)
    reason = rng.choices(["hole", "start", "jump"], [20, 2, 1])[0]
    return {
        "source": name,
        "epoch": 0,
        "held": 1 + int(for_ns / S * RATE),
        "reason": reason,
        "missing": [first, first + rng.choice([0, 0, 0, 1, 3])] if reason == "hole" else None,
        "since": NOW_NS - for_ns,
        "deadline": NOW_NS + max(5 * MS, 500 * MS - for_ns),
    }


def clock(rng: Random, name: str) -> dict[str, Any]:
    state = rng.choices(["synced", "stale", "unsynced", "suspect", "broken"], [940, 30, 25, 4, 1])
    error_ns = int(rng.lognormvariate(0, 0.9) * MS * (1 if state == ["synced"] else 40))
    offset_ns = int(rng.gauss(0, 30) * MS)
    return {"source": name, "state": state[0], "offset_ns": offset_ns, "error_ns": error_ns}


def troubles(rng: Random, names: list[str]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What real tables tell, and how much there was in all. Every source is late and leaves holes
    at some time, a few of them very often."""
    events = []
    for name in names:
        often = int(rng.lognormvariate(1.0, 1.4))
        events += [(name, 0)] * rng.randint(0, 2 * often)
        events += [(name, 1 + int(rng.expovariate(0.7))) for _ in range(often)]
    rng.shuffle(events)
    unhealthy = UnhealthySources("")
    for name, lost in events:
        if lost:
            unhealthy.saw([Gap(NOW_NS, "hall", name, 0, 1, lost, "timeout", 1)])
        else:
            unhealthy.came_late([("hall", name)])
    in_all = {"late": sum(not lost for _, lost in events), "lost": sum(lost for _, lost in events)}
    return unhealthy.explain(EXPLAINED), in_all


def metrics(sources: int, seconds: float, in_all: dict[str, int]) -> str:
    read = int(sources * RATE * (3_600 + seconds))
    late_in_all, lost = in_all["late"], in_all["lost"]
    stages = ("reorder", "merge", "window")
    place = 'stage="{}",stream="hall",partition="0"'
    told = {
        "records_in": {place.format(stage): read for stage in stages},
        "records_emitted": {place.format(stage): read - late_in_all for stage in stages},
        "records_held": {
            place.format(stage): held * sources
            for stage, held in (("reorder", 1), ("merge", 7), ("window", 0))
        },
        "input_lag_records": {f'stage="{stage}",partition="0"': sources // 9 for stage in stages},
        "reorder_missing": {place.format("reorder"): lost},
        "records_late": {place.format("reorder") + ',reason="gap"': late_in_all},
        "records_dead": {place.format("reorder") + ',reason="ts_unreadable"': 3},
        "partitions_assigned": {f'stage="{stage}"': 1 for stage in stages},
        "input_partitions": {f'stage="{stage}"': 1 for stage in stages},
        "rebalances": {f'stage="{stage}"': 2 for stage in stages},
        "results": {
            f'stage="window",query="force",op="{op}",final="{final}"': int(count)
            for op, final, count in (
                ("emit", "true", 339 + seconds * 4),
                *(("emit", "false", 21), ("update", "true", 17), ("retract", "true", 4)),
            )
        },
    }
    lines = []
    for name, samples in told.items():
        is_gauge = name in GAUGES
        family = f"inorder_{name}" + ("" if is_gauge else "_total")
        lines.append(f"# TYPE {family} {'gauge' if is_gauge else 'counter'}")
        lines += [f"{family}{{{labels}}} {value}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def looks(sources: int) -> Callable[[], Awaitable[View]]:
    explained, told = plant(sources)
    merge = explained[1]["streams"]["hall"]["merge"]
    began_s: list[float] = []
    rng = Random(1)

    async def look() -> View:
        now_s = asyncio.get_running_loop().time()
        began_s.append(now_s)
        merge["watermark_ns"] = NOW_NS - int((180 + 90 * rng.random()) * MS)
        texts = [told(now_s - began_s[0])]
        return view(healthy(), explained, texts, {"reorder": [LINE]})

    return look


def draw(scheme: str, into: Path) -> None:
    from PIL import Image  # tests import this module without it

    with (
        tempfile.TemporaryDirectory() as profile,
        up(looks(SOURCES)) as address,
        chromium(Path(profile)) as driver,
    ):
        show_at(driver, WIDE, HEIGHT)
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        asked = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
        driver.get(f"http://{address}/")
        body = driver.find_element(By.TAG_NAME, "body")
        wait_until(lambda: int(body.get_attribute("data-drawn") or 0) >= VIEWS, 120.0, "views")
        picture = Image.open(BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        into, optimize=True
    )
    print(f"{into.name}: {into.stat().st_size} bytes")


def main(folder: Path) -> None:
    draw("light", folder / "page.png")
    draw("dark", folder / "page_dark.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/pictures")
