"""Examples: the settings on a worker's page."""

from __future__ import annotations

from pathlib import Path

import yaml

from cli.run.worker import make_settings_reader
from tests.cli.invoking import text_file


def test_page_hides_passwords(tmp_path: Path) -> None:
    """Settings are shown as they were at the start, even if the file has changed."""
    file = text_file(tmp_path / "t.yaml", "streams: {default: {}}\nstate: redis\n")
    text = make_settings_reader(str(file), "redis://me:secret@store:6379/0")()
    shown = yaml.safe_load(text)
    assert shown["redis"] == "redis://store:6379/0"
    assert shown["streams"]["default"]["reorder"]["max_wait"] == "500ms"
    file.write_text("streams: {other: {}}\n")
    again = make_settings_reader(str(file), None)
    file.write_text("no longer a topology")
    assert "other" in yaml.safe_load(again())["streams"], "as it was at the start"
