"""Examples: NOTICE names each package that the image redistributes."""

from __future__ import annotations

import re

from infra.notice import BEGIN, ROOT, licence, list_pinned


def test_each_package_is_named() -> None:
    listed = (ROOT / "NOTICE").read_text().partition(BEGIN)[2]
    assert re.findall(r"^  (\S+): \S", listed, re.M) == list_pinned(), "run: python -m infra.notice"
    assert "psycopg-binary" in list_pinned()


def test_licence_has_its_short_name() -> None:
    assert licence("psycopg") == "LGPL-3.0-only"
    assert licence("no-such-package") == "see its own files"
