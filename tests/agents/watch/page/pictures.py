"""Draws the pictures of the page: `python -m tests.agents.watch.page.pictures`.

Chromium draws the page of made-up answers, light and dark; the pictures have as few colours as
they need.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Final

from agents.watch.page.view import View, view
from tests import ROOT
from tests.agents.watch.page.browser import WIDE, opened, show_at
from tests.agents.watch.page.many import DEAD, LATE_ONE, METRICS, NOW_NS, healthy, partitions

VIEWS: Final = 12
COLOURS: Final = 256
SOURCES: Final = 100
WAITING: Final = 6
HEIGHT: Final = 935
UNREADABLE: Final = (
    "header `ts` is `12:00`; write an integer in ns, or RFC 3339 without leap seconds"
)
DEATHS: Final = {"ts_unreadable": (NOW_NS, 48_117, UNREADABLE, 3, "events.raw/0")}
LINE: Final = {"at_ns": NOW_NS, "level": "warning", "text": "not ready: events.raw/0: restoring"}
OF_A_STAGE: Final = """\
# TYPE inorder_records_in_total counter
inorder_records_in_total{{stage="{0}",stream="default",partition="0"}} {1}
# TYPE inorder_records_emitted_total counter
inorder_records_emitted_total{{stage="{0}",stream="default",partition="0"}} {1}
# TYPE inorder_partitions_assigned gauge
inorder_partitions_assigned{{stage="{0}"}} 1
# TYPE inorder_input_partitions gauge
inorder_input_partitions{{stage="{0}"}} 1
"""


def plant() -> Callable[[], Awaitable[View]]:
    """Each look finds eight events more of each source."""
    parts = partitions(SOURCES, WAITING)
    for part, topic in zip(parts, ("raw", "sequenced", "ordered"), strict=True):
        part["topic"] = f"events.{topic}"
    parts[0].update(late=[LATE_ONE], deaths={"read": 9_000, "reasons": DEATHS})
    merge = parts[1]["streams"]["default"]["merge"]
    rng, read = Random(7), 0

    async def look() -> View:
        nonlocal read
        read += 8 * SOURCES
        merge["watermark_ns"] = NOW_NS - rng.randrange(180, 270) * 1_000_000
        texts = [OF_A_STAGE.format(part["stage"], read) for part in parts]
        texts += [METRICS.format(read=0), DEAD.replace("source_missing", "ts_unreadable")]
        return view(healthy(), parts, texts, {"reorder": [LINE]})

    return look


def draw(scheme: str, into: Path) -> None:
    from PIL import Image  # tests import this module without it

    with tempfile.TemporaryDirectory() as profile, opened(plant(), Path(profile)) as page:
        show_at(page.driver, WIDE, HEIGHT)
        page.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        asked = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
        page.wait_drawn(VIEWS)
        picture = Image.open(BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        into, optimize=True
    )
    print(f"{into.name}: {into.stat().st_size} bytes")


def main(folder: Path) -> None:
    draw("light", folder / "page.png")
    draw("dark", folder / "page_dark.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/pictures")
