"""`python -m infra.spark.package [DIR]`: what spark-submit needs, into DIR (`dist/spark`).

| file               | what it is                                                              |
|--------------------|-------------------------------------------------------------------------|
| `inorder_spark.py` | the application; its arguments are those of `inorder spark`             |
| `inorder.zip`      | the rooms it imports, for `--py-files`                                  |
| `jars/*.jar`       | Kafka's connector, PostgreSQL's driver, Iceberg and Delta, for `--jars` |

What else the driver imports is in `requirements.lock`; executors import nothing of ours.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from cli.local.maven import JarsUnavailable
from cli.spark.jars import FORMATS, jars, lake_jars, postgres_jars

ROOT: Final = Path(__file__).parents[2]
OUT: Final = Path("dist/spark")
ROOMS: Final = ("inorder", "topology", "codec", "agents", "producers", "spark_analytics", "cli")
NOT_FILES: Final = {".pyc", ".so"}
"""Made on this machine, for it."""

APPLICATION: Final = "inorder_spark.py"
ZIPPED: Final = "inorder.zip"
STAMP: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip knows: the same files give the same archive."""


def build(folder: Path) -> list[Path]:
    """The files that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    application = folder / APPLICATION
    shutil.copyfile(ROOT / "cli" / "spark" / "application.py", application)
    zipped = folder / ZIPPED
    with ZipFile(zipped, "w", ZIP_DEFLATED) as archive:
        for file in _files():
            entry = ZipInfo(file.relative_to(ROOT).as_posix(), STAMP)
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    beside = folder / "jars"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    lakes = (jar for kind in FORMATS for jar in lake_jars(kind))
    copies = [Path(shutil.copy(jar, beside)) for jar in (*jars(), *postgres_jars(), *lakes)]
    return [application, zipped, *copies]


def _files() -> list[Path]:
    found = (file for room in ROOMS for file in (ROOT / room).rglob("*") if file.is_file())
    return sorted(file for file in found if file.suffix not in NOT_FILES)


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else OUT
    try:
        written = build(folder)
    except JarsUnavailable as absent:
        sys.exit(str(absent))
    for file in written:
        print(f"{file} ({file.stat().st_size / 1e3:,.0f} kB)")


if __name__ == "__main__":
    main(sys.argv[1:])
