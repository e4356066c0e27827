"""Examples: the page over a loopback connection, and in Chromium with 10,000 sources."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agents.watch.page import serving
from agents.watch.page.serving import FILES
from agents.watch.page.sources import MAX_SOURCES
from agents.watch.page.view import View, build_view
from cli.local.poll import share_of_processors
from tests.agents.watch.page.browser import NARROW, opened, show_at
from tests.agents.watch.page.many import DEAD, METRICS, healthy, looked, partitions, server

TIMEOUT = aiohttp.ClientTimeout(total=10)
SOURCES = 10_000
WAITING = 4_000
DRAWN_WITHIN_MS = 300.0
"""Limit for one view; 10,000 sources take Chromium 5 ms on a quiet machine."""


def ask_server(ask: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    """Return the result of `ask` while the server is up."""

    async def run() -> Any:
        serves = server(looked(SOURCES, WAITING))
        host, port = await serves.start()
        try:
            async with aiohttp.ClientSession(f"http://{host}:{port}", timeout=TIMEOUT) as session:
                return await ask(session)
        finally:
            await serves.stop()

    return asyncio.run(run())


async def first_event(session: aiohttp.ClientSession) -> dict[str, Any]:
    async with session.get("/events") as response:
        assert response.content_type == "text/event-stream"
        line = await response.content.readline()
        found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
        return found


def test_page_is_self_contained() -> None:
    async def ask(session: aiohttp.ClientSession) -> dict[str, tuple[str, str]]:
        found = {}
        for path in FILES:
            async with session.get(path) as response:
                assert response.status == 200
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
                found[path] = response.content_type, await response.text()
        return found

    found = ask_server(ask)
    assert {path: kind for path, (kind, _) in found.items()} == {
        path: kind for path, (_, kind) in FILES.items()
    }
    for _, text in found.values():
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in text


def test_viewers_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "EVERY_S", 60.0)

    async def ask(session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        return [await first_event(session) for _ in range(5)]

    seen = ask_server(ask)
    assert [view["stages"][0]["in"] for view in seen] == [300.0] * 5
    assert seen[0]["sources"]["known"] == SOURCES


def test_extra_viewers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_VIEWERS", 1)

    async def ask(session: aiohttp.ClientSession) -> tuple[int, str]:
        async with session.get("/events") as first:
            await first.content.readline()
            async with session.get("/events") as second:
                return second.status, await second.text()

    assert ask_server(ask) == (503, "1 pages are open already; close one\n")


WIDTHS = "return [document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.programs
@pytest.mark.slow
def test_chromium_shows_many_sources(tmp_path: Path) -> None:
    with opened(looked(SOURCES, WAITING), tmp_path) as page:
        driver, text, texts, words = page.driver, page.text, page.texts, page.words
        page.wait_drawn(3)
        took_ms = float(page.run("return document.body.dataset.drawnMs"))
        print(f"the last view drawn in {took_ms} ms")
        assert took_ms < DRAWN_WITHIN_MS * share_of_processors()

        assert text("#health") == "ready"
        assert words("#partitions tbody tr")[0].startswith("reorder before-reorder/0 0 0")
        assert words("#log tbody tr") == [
            "2001-09-09 01:46:40 UTC reorder events.raw/0: the broker is silent"
        ]
        (last,) = words("#late tbody tr")
        assert last == "press-5 2 17 default gap 80 ms 2001-09-09 01:46:40 UTC"
        page.click("#late tbody tr")
        asked_for = "return Object.fromEntries(new FormData(document.getElementById('event')))"
        wanted = {"source": "press-5", "seq": "17", "epoch": "2", "stream": "default"}
        assert page.run(asked_for) == wanted
        page.click("#settings summary")
        page.wait(lambda: text("#settings pre").strip() == "streams: {}", "settings")
        assert text("#sources-count") == "10,000 known, 4,000 with buffered events"
        assert len(words("#sources tbody tr")) == 20
        page.click("#more")
        rows = words("#sources tbody tr")
        assert 200 < len(rows) <= MAX_SOURCES
        assert rows[0].startswith("press-0 default buffered after a gap at numbers 7 to 8 2")
        assert "97%" in text("#queries tbody")
        assert text(".stage dd").endswith("/s")

        page.click("button[data-by=late]")
        row = words("#sources tbody tr")[0]
        late = re.match(r"press-9998 default in order (?:≥ )?(\d+) (?:≥ )?1 (?:≥ )?\d+ synced", row)
        assert late, row
        assert int(late[1]) > 20, "the others 3 times"
        unsure = texts("#sources td span")
        assert unsure, "not all of so many sources can be counted exactly"
        assert all(each.startswith("≥ ") for each in unsure)
        assert texts("th[aria-sort=descending]") == ["late"]
        page.click("button[data-by=since]")

        driver.find_element("id", "filter").send_keys("press-9999")
        (only,) = words("#sources tbody tr")
        assert only.startswith("press-9999 default in order")
        page.run("document.querySelector('#sources tbody tr').click()")
        assert page.run(asked_for)["source"] == "press-9999"
        driver.find_element("css selector", "#event [name=seq]").send_keys("17")
        page.click("#event button")
        page.wait(lambda: text("#event-answer ul") != "", "the answer")
        assert text("#event-answer p") == "not come"
        assert "press-9999/0/17: has not arrived: the highest" in text("#event-answer li")
        logged = driver.get_log("browser")  # type: ignore[no-untyped-call]
        assert [entry for entry in logged if entry["level"] == "SEVERE"] == []


NAMED = """
    return [...document.querySelectorAll('#sources tbody tr:first-child td')]
        .filter(cell => cell.offsetParent)
        .map(cell => cell.dataset.label + ': ' + cell.innerText)"""


@pytest.mark.programs
@pytest.mark.slow
def test_chromium_labels_narrow_cells(tmp_path: Path) -> None:
    with opened(looked(SOURCES, WAITING), tmp_path) as page:
        for width in (NARROW, 800):
            show_at(page.driver, width, 900)
            assert page.run(WIDTHS) == [width, width]
            cells = page.run(NAMED)
            assert cells[:2] == ["source: press-0", "stream: default"]
            assert cells[2:4] == ["state: buffered after a gap at numbers 7 to 8", "buffered: 2"]


LONG = "W" * 250
BACKWARDS = "\u202egnp.evil\u2066\n"


@pytest.mark.programs
@pytest.mark.slow
def test_chromium_escapes_names(tmp_path: Path) -> None:
    async def look() -> View:
        seen = build_view(healthy(), partitions(9, 5), [METRICS.format(read=1)])
        named = json.dumps(seen).replace('"press-0"', f'"{LONG}"')
        return dict(json.loads(named.replace('"press-1"', json.dumps(BACKWARDS))))

    with opened(look, tmp_path) as page:
        wide, window = page.run(WIDTHS)
        assert wide <= window
        assert {LONG, "\\u202egnp.evil\\u2066\\n"} <= {*page.texts("#sources td:first-child")}


@pytest.mark.programs
@pytest.mark.slow
def test_chromium_shows_dead_letters(tmp_path: Path) -> None:
    """Columns without values are hidden."""
    remedy = "header `sourceId` is missing; write it in every record"
    deaths = {"read": 3, "reasons": {"source_missing": (5, 0, remedy, 3, "raw/0")}}
    with opened(looked(0, 0, deaths, DEAD), tmp_path) as page:
        assert page.text("#alarms li").startswith(
            "reorder: every record is a dead letter (3), with reason source_missing; raw/0"
        )
        assert page.words("#dead tbody tr") == [f"source_missing 3 raw/0 offset 0 {remedy}"]
        assert page.words("#causes tbody tr")[0] == "passed 7"
        assert "emitted" in page.texts("#queries th")
        assert page.texts("#sources th") == [], "no row, no columns"
