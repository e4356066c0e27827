"""Examples, without Spark: which folders of an archive a backfill reads, by path or address."""

from __future__ import annotations

from pathlib import Path

import pytest

from recordings.file import InputError
from spark_analytics.backfill.archived import folders_of


@pytest.mark.parametrize("is_address", [False, True])
def test_archive_lists_topic_folders(tmp_path: Path, is_address: bool) -> None:
    for topic in ("raw", "heard", "other"):
        (tmp_path / topic / "stream=a" / "hour=2023-11-14T22").mkdir(parents=True)
    path = tmp_path.as_uri() if is_address else str(tmp_path)
    assert folders_of(path, ["heard", "raw"]) == [f"{path}/heard", f"{path}/raw"]
    assert folders_of(f"{path}/raw", ["heard", "raw"]) == [f"{path}/raw"]
    with pytest.raises(InputError, match="is an archive of heard, other, raw, but the topology"):
        folders_of(path, ["strange"])
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(InputError, match=r"a\.jsonl: is a file, but only archives can be read"):
        folders_of(f"{path}/a.jsonl", ["raw"])
    assert folders_of("nowhere://x/raw", ["raw"]) == ["nowhere://x/raw"]
