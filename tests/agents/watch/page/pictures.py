"""Draw the pictures of the page: `python -m tests.agents.watch.page.pictures`.

Chromium draws the page with invented answers, light and dark; the pictures have as few colours as
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

from agents.watch.page.view import View, build_view
from tests import ROOT
from tests.agents.watch.page.browser import WIDE, opened, show_at
from tests.agents.watch.page.many import LATE_ONE, NOW_NS, healthy, partitions

VIEWS: Final = 12
COLOURS: Final = 256
SOURCES: Final = 100
WAITING: Final = 6
HEIGHT: Final = 955
UNREADABLE: Final = (
    "header `ts` is `12:00`; write an integer in ns, or RFC 3339 without leap seconds"
)
DEATHS: Final = {"ts_unreadable": (NOW_NS, 48_117, UNREADABLE, 3, "events.raw/0")}
LINE: Final = {"at_ns": NOW_NS, "level": "warning", "text": "not ready: events.raw/0: restoring"}
AWAITED: Final = ("lathe-17", "oven-2", "oven-9", "press-11", "robot-2", "robot-5")
TOLD: Final = """\
# TYPE inorder_records_in_total counter
inorder_records_in_total{{stage="all",stream="hall",partition="0"}} {read}
# TYPE inorder_records_emitted_total counter
inorder_records_emitted_total{{stage="all",stream="hall",partition="0"}} {read}
# TYPE inorder_records_late_total counter
inorder_records_late_total{{stage="all",stream="hall",partition="0",reason="gap"}} 953
# TYPE inorder_records_dead_total counter
inorder_records_dead_total{{stage="all",stream="",partition="0",reason="ts_unreadable"}} 3
# TYPE inorder_records_held gauge
inorder_records_held{{stage="all",stream="hall",partition="0"}} 700
# TYPE inorder_input_lag_records gauge
inorder_input_lag_records{{stage="all",topic="events.raw",partition="0"}} 11
# TYPE inorder_reorder_missing_total counter
inorder_reorder_missing_total{{stage="all",stream="hall",partition="0"}} 1592
# TYPE inorder_rebalances_total counter
inorder_rebalances_total{{stage="all"}} 2
# TYPE inorder_partitions_assigned gauge
inorder_partitions_assigned{{stage="all"}} 8
# TYPE inorder_input_partitions gauge
inorder_input_partitions{{stage="all"}} 8
# TYPE inorder_results_total counter
inorder_results_total{{stage="all",query="force",op="emit",final="true"}} 383
inorder_results_total{{stage="all",query="force",op="emit",final="false"}} 21
inorder_results_total{{stage="all",query="force",op="update",final="true"}} 17
inorder_results_total{{stage="all",query="force",op="retract",final="true"}} 4
"""


def plant() -> Callable[[], Awaitable[View]]:
    """Return a function that views one task; each view has eight more events from each source."""
    apart = partitions(SOURCES, WAITING)
    operators = {name: said for part in apart for name, said in part["streams"]["default"].items()}
    (force,) = operators["window"].values()
    operators["window"] = {"force": {**force, "achieved_ppm": 996_400, "wait_mean_ns": 410_000_000}}
    merge = operators["merge"]
    awaits = {"behind_hole": True, "after_pause": False, "until": None}
    merge.update(idle=2, queued=700, waits_for=[{"source": name, **awaits} for name in AWAITED])
    task = {**apart[0], "stage": "all", "topic": "events.raw", "streams": {"hall": operators}}
    task.update(late=[LATE_ONE], deaths={"read": 9_000, "reasons": DEATHS})
    rng, read = Random(7), 0

    async def look() -> View:
        nonlocal read
        read += 8 * SOURCES
        merge["watermark_ns"] = NOW_NS - rng.randrange(180, 270) * 1_000_000
        return build_view(healthy(), [task], [TOLD.format(read=read)], {"all": [LINE]})

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
