"""Examples: the page over a loopback connection, and in Chromium with ten thousand sources."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agents.watch.page import serving
from agents.watch.page.serving import FILES
from agents.watch.page.sources import MAX_SOURCES
from agents.watch.page.view import View, view
from cli.local.poll import share_of_processors, wait_until
from tests.agents.watch.page import pictures
from tests.agents.watch.page.browser import NARROW, WIDE, chromium, missing, show_at
from tests.agents.watch.page.many import METRICS, healthy, partitions
from tests.agents.watch.page.serves import server, up
from tests.services import require

TIMEOUT = aiohttp.ClientTimeout(total=10)
SOURCES = 10_000
WAITING = 4_000
DEAD = """\
# TYPE inorder_records_dead_total counter
inorder_records_dead_total{stage="reorder",stream="",partition="0",reason="source_missing"} 3.0
"""
DRAWN_TIMEOUT_S = 60.0
DRAWN_WITHIN_MS = 300.0
"""A view of ten thousand sources takes Chromium 5 ms on a quiet machine."""


LATE_ONE = {
    "stream": "default",
    "source": "press-5",
    "epoch": 2,
    "first": 17,
    "last": 17,
    "what": "late",
    "reason": "gap",
    "at_ns": 10**18,
    "by_ns": 80_000_000,
}
LINE = {"at_ns": 10**18, "level": "error", "text": "events.raw/0: the broker is silent"}


def looked() -> Callable[[], Awaitable[View]]:
    """Each look finds 300 events more."""
    read = 0

    async def look() -> View:
        nonlocal read
        read += 300
        texts = [METRICS.format(read=read)]
        parts = partitions(SOURCES, WAITING)
        parts[0]["late"] = [LATE_ONE]
        return view(healthy(), parts, texts, {"reorder": [LINE]})

    return look


def asked(ask: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        serves = server(looked())
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


def test_files_need_nothing_from_elsewhere() -> None:
    async def ask(session: aiohttp.ClientSession) -> dict[str, tuple[str, str]]:
        found = {}
        for path in FILES:
            async with session.get(path) as response:
                assert response.status == 200
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
                found[path] = response.content_type, await response.text()
        return found

    found = asked(ask)
    assert {path: kind for path, (kind, _) in found.items()} == {
        path: kind for path, (_, kind) in FILES.items()
    }
    for _, text in found.values():
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in text


def test_an_event_is_a_view() -> None:
    seen = asked(first_event)
    assert seen["sources"]["known"] == SOURCES
    assert seen["health"]["live"]["ok"]


def test_those_who_look_share_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "EVERY_S", 60.0)

    async def ask(session: aiohttp.ClientSession) -> list[float]:
        seen = [await first_event(session) for _ in range(5)]
        return [view["stages"][0]["in"] for view in seen]

    assert asked(ask) == [300.0] * 5


def test_more_than_may_look_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_VIEWERS", 1)

    async def ask(session: aiohttp.ClientSession) -> tuple[int, str]:
        async with session.get("/events") as first:
            await first.content.readline()
            async with session.get("/events") as second:
                return second.status, await second.text()

    assert asked(ask) == (503, "1 pages are open already; close one\n")


@pytest.mark.slow
def test_ten_thousand_sources_in_chromium(tmp_path: Path) -> None:
    require(missing())
    from selenium.webdriver.common.by import By

    with up(looked()) as address, chromium(tmp_path) as driver:
        began_s = time.monotonic()
        driver.get(f"http://{address}/")

        def drawn() -> int:
            return int(driver.execute_script("return document.body.dataset.drawn || 0"))

        def texts(selector: str) -> list[str]:
            """In one step: the page is drawn anew each second."""
            script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
            return [str(found) for found in driver.execute_script(script, selector)]

        def text(selector: str) -> str:
            wait_until(lambda: bool(texts(selector)), DRAWN_TIMEOUT_S, selector)
            return texts(selector)[0]

        def words(selector: str) -> list[str]:
            return [" ".join(found.split()) for found in texts(selector)]

        wait_until(lambda: drawn() >= 1, DRAWN_TIMEOUT_S, "the first view")
        first_s = time.monotonic() - began_s
        wait_until(lambda: drawn() >= 3, DRAWN_TIMEOUT_S, "two more")
        took_ms = float(driver.execute_script("return document.body.dataset.drawnMs"))
        print(f"first view after {first_s:.2f} s, the last drawn in {took_ms} ms")
        assert took_ms < DRAWN_WITHIN_MS * share_of_processors()

        assert text("#health") == "ready"
        assert words("#partitions tbody tr")[0].startswith("reorder before-reorder/0 0 0")
        assert words("#log tbody tr") == [
            "2001-09-09 01:46:40 UTC reorder events.raw/0: the broker is silent"
        ]
        (last,) = words("#late tbody tr")
        assert last == "press-5 2 17 default gap 80 ms 2001-09-09 01:46:40 UTC"
        driver.find_element(By.CSS_SELECTOR, "#late tbody tr").click()
        asked_for = "return Object.fromEntries(new FormData(document.getElementById('event')))"
        wanted = {"source": "press-5", "seq": "17", "epoch": "2", "stream": "default"}
        assert driver.execute_script(asked_for) == wanted
        driver.find_element(By.CSS_SELECTOR, "#settings summary").click()
        wait_until(
            lambda: text("#settings pre").strip() == "streams: {}", DRAWN_TIMEOUT_S, "settings"
        )
        assert text("#sources-count") == "10,000 known, 4,000 with buffered events"
        assert len(words("#sources tbody tr")) == 20
        driver.find_element(By.ID, "more").click()
        rows = words("#sources tbody tr")
        assert 200 < len(rows) <= MAX_SOURCES
        assert rows[0].startswith("press-0 default buffered after a gap at numbers 7 to 8 2")
        assert "97%" in text("#queries tbody")
        assert text(".stage dd").endswith("/s")

        driver.find_element(By.CSS_SELECTOR, "button[data-by=late]").click()
        row = words("#sources tbody tr")[0]
        late = re.match(r"press-9998 default in order (?:≥ )?(\d+) (?:≥ )?1 (?:≥ )?\d+ synced", row)
        assert late, row
        assert int(late[1]) > 20, "the others 3 times"
        script = "return [...document.querySelectorAll('#sources td span')].map(e => e.innerText)"
        unsure = driver.execute_script(script)
        assert unsure, "not all of so many sources can be counted exactly"
        assert all(each.startswith("≥ ") for each in unsure)
        assert texts("th[aria-sort=descending]") == ["late"]
        driver.find_element(By.CSS_SELECTOR, "button[data-by=since]").click()

        driver.find_element(By.ID, "filter").send_keys("press-9999")
        (only,) = words("#sources tbody tr")
        assert only.startswith("press-9999 default in order")
        driver.execute_script("document.querySelector('#sources tbody tr').click()")
        form = driver.find_element(By.ID, "event")
        assert form.find_element(By.NAME, "source").get_attribute("value") == "press-9999"
        form.find_element(By.NAME, "seq").send_keys("17")
        form.find_element(By.TAG_NAME, "button").click()
        wait_until(lambda: text("#event-answer ul") != "", DRAWN_TIMEOUT_S, "the answer")
        assert text("#event-answer p") == "not come"
        assert "press-9999/0/17: has not arrived: the highest" in text("#event-answer li")
        logged = driver.get_log("browser")  # type: ignore[no-untyped-call]
        assert [entry for entry in logged if entry["level"] == "SEVERE"] == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [NARROW, 800])
def test_on_a_narrow_screen_each_cell_has_its_name_in_chromium(tmp_path: Path, width: int) -> None:
    require(missing())
    with up(looked()) as address, chromium(tmp_path) as driver:
        show_at(driver, width, 900)
        driver.get(f"http://{address}/")
        drawn = "return Number(document.body.dataset.drawn || 0)"
        wait_until(lambda: driver.execute_script(drawn) >= 1, DRAWN_TIMEOUT_S, "the first view")
        page = "return [document.documentElement.scrollWidth, innerWidth]"
        assert driver.execute_script(page) == [width, width]
        named = """
            return [...document.querySelectorAll('#sources tbody tr:first-child td')]
                .filter(cell => cell.offsetParent)
                .map(cell => cell.dataset.label + ': ' + cell.innerText)"""
        cells = driver.execute_script(named)
        assert cells[:2] == ["source: press-0", "stream: default"]
        assert cells[2:4] == ["state: buffered after a gap at numbers 7 to 8", "buffered: 2"]
        beyond = """
            return [...document.querySelectorAll('main *')].filter(e => e.offsetParent
                && !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 1).length"""
        assert driver.execute_script(beyond) == 0


SCROLLED = """
    return [...document.querySelectorAll('section')].filter(e => e.scrollWidth > e.clientWidth)
        .map(e => e.innerText)"""
WRAPPED_LABELS = """
    const label = 'h1, h2, h3, th, dt, dd, label, button, summary, .n, .time';
    const below = (e) => [...e.children].find(each => getComputedStyle(each).display == 'block');
    return [...document.querySelectorAll(label)].filter(e => e.offsetParent && e.innerText.trim())
        .filter(e => {
            const text = document.createRange();
            text.selectNodeContents(e);
            if (below(e)) text.setEndBefore(below(e));
            const ends = [...text.getClientRects()].filter(r => r.width).map(r => r.bottom);
            return e.clientWidth && e.scrollWidth > e.clientWidth + 1
                || Math.max(...ends) - Math.min(...ends) > 8;
        }).map(e => e.innerText)"""
WRAPPED_WORDS = """
    const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (!node.parentElement.offsetParent) continue;
        for (const word of node.data.matchAll(/[^\\s\\-\\/]+/g)) {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(each => each.top)).size > 1) {
                found.push(word[0]);
            }
        }
    }
    return found"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDE, 1_100, NARROW])
def test_no_word_and_no_label_wraps_in_chromium(tmp_path: Path, width: int) -> None:
    require(missing())
    look = pictures.looks(pictures.SOURCES)
    with up(look) as address, chromium(tmp_path) as driver:
        show_at(driver, width, 900)
        driver.get(f"http://{address}/")
        drawn = "return Number(document.body.dataset.drawn || 0)"
        wait_until(lambda: driver.execute_script(drawn) >= 2, DRAWN_TIMEOUT_S, "two views")
        shown = driver.execute_script("return document.querySelectorAll('td').length")
        assert shown > 200
        assert driver.execute_script(WRAPPED_LABELS) == []
        assert driver.execute_script(WRAPPED_WORDS) == []
        assert driver.execute_script(SCROLLED) == []
        # The two checks see what they are to see.
        narrow = "document.querySelectorAll('dt').forEach(e => { e.style = 'width: 2em; %s' })"
        driver.execute_script(narrow % "white-space: normal")
        assert "unread records" in driver.execute_script(WRAPPED_LABELS)
        driver.execute_script(narrow % "white-space: normal; overflow-wrap: anywhere")
        assert "partitions" in driver.execute_script(WRAPPED_WORDS)


def test_each_table_has_a_caption_and_its_heads_a_scope() -> None:
    page = (Path(serving.FOLDER) / "page.html").read_text()
    assert page.count("<table") == page.count("<caption>")
    assert page.count("<th ") == page.count('<th scope="col"')


LONG = "W" * 250
BACKWARDS = "\u202egnp.evil\u2066\n"


@pytest.mark.slow
def test_a_hostile_name_keeps_its_place_and_its_order_in_chromium(tmp_path: Path) -> None:
    require(missing())

    async def look() -> View:
        seen = view(healthy(), partitions(9, 5), [METRICS.format(read=1)])
        whole = json.dumps(seen)
        named = whole.replace('"press-0"', f'"{LONG}"').replace('"speeds"', f'"{LONG}"')
        named = named.replace('"press-1"', json.dumps(BACKWARDS))
        return dict(json.loads(named))

    with up(look) as address, chromium(tmp_path) as driver:
        driver.get(f"http://{address}/")
        drawn = "return Number(document.body.dataset.drawn || 0)"
        wait_until(lambda: driver.execute_script(drawn) >= 1, DRAWN_TIMEOUT_S, "the first view")
        page = "return [document.documentElement.scrollWidth, innerWidth]"
        wide, window = driver.execute_script(page)
        assert wide <= window
        assert driver.execute_script(SCROLLED) == []
        cells = "return [...document.querySelectorAll('#sources td:first-child')]"
        names = driver.execute_script(f"{cells}.map(e => e.innerText)")
        assert LONG in names
        assert "\\u202egnp.evil\\u2066\\n" in names


@pytest.mark.slow
def test_why_all_is_dead_stands_above_the_fold(tmp_path: Path) -> None:
    """And what no row says has no column."""
    require(missing())
    first = [5, 0, "header `sourceId` is missing; write it in every record", 3, "raw/0"]
    parts = partitions(0, 0)
    parts[0]["deaths"] = {"read": 3, "reasons": {"source_missing": first}}
    texts = [METRICS.format(read=0), DEAD]

    async def look() -> View:
        return view(healthy(), parts, texts)

    with up(look) as address, chromium(tmp_path, height=900) as driver:
        driver.get(f"http://{address}/")
        shown = "return [...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent)"

        def texts_of(selector: str) -> list[str]:
            return [
                str(t) for t in driver.execute_script(f"{shown}.map(e => e.innerText)", selector)
            ]

        wait_until(lambda: bool(texts_of("#alarms li")), DRAWN_TIMEOUT_S, "the alarm")
        (alarm,) = texts_of("#alarms li")
        assert alarm.startswith(
            "reorder: every record is a dead letter (3), with reason source_missing; raw/0"
        )
        bottom = "return document.querySelector('#dead').getBoundingClientRect().bottom"
        assert driver.execute_script(bottom) < 750
        rows = [" ".join(row.split()) for row in texts_of("#dead tbody tr")]
        remedy = "header `sourceId` is missing; write it in every record"
        assert rows == [f"source_missing 3 raw/0 offset 0 {remedy}"]
        assert texts_of("#causes tbody tr")[0].split() == ["passed", "7"]
        assert "emitted" in texts_of("#queries th")
        assert texts_of("#sources th") == [], "no row, no columns"
