"""Draws the pictures of the page: `python -m tests.agents.watch.page.pictures`.

Chromium draws the page of made-up answers, light and dark; the pictures have as few colours as
they need.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.agents.watch.page.browser import WIDE, opened, show_at
from tests.agents.watch.page.many import DEAD, NOW_NS, looked

VIEWS: Final = 12
COLOURS: Final = 256
SOURCES: Final = 100
WAITING: Final = 6
HEIGHT: Final = 935
UNREADABLE: Final = (
    "header `ts` is `12:00`; write an integer in ns, or RFC 3339 without leap seconds"
)
DEATHS: Final = {"ts_unreadable": (NOW_NS, 48_117, UNREADABLE, 3, "events.raw/0")}


def draw(scheme: str, into: Path) -> None:
    from PIL import Image  # tests import this module without it

    look = looked(SOURCES, WAITING, {"read": 9_000, "reasons": DEATHS}, DEAD)
    with tempfile.TemporaryDirectory() as profile, opened(look, Path(profile)) as page:
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
