"""Writes the files for spark-submit into DIR: `python -m infra.spark.package [DIR]`.

The default DIR is `dist/spark`.

| file               | content                                                                 |
|--------------------|-------------------------------------------------------------------------|
| `inorder_spark.py` | the application; its arguments are those of `inorder spark`             |
| `inorder.zip`      | the packages that it imports, for `--py-files`                          |
| `jars/*.jar`       | Kafka's connector, PostgreSQL's driver, Iceberg and Delta, for `--jars` |

All other imported packages are in `infra/locks/spark.txt`. The driver needs them; for a backfill
and `live` the executors need them too.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cli.local.maven import JarsUnavailable
from cli.spark.jars import FORMATS, fetch_connector_jars, fetch_lake_jars, postgres_jars
from spark_analytics.executors.shipping import ROOMS as ROOMS
from spark_analytics.executors.shipping import ZIPPED as ZIPPED
from spark_analytics.executors.shipping import zip_into

ROOT: Final = Path(__file__).parents[2]
OUT: Final = Path("dist/spark")
APPLICATION: Final = "inorder_spark.py"


def build(folder: Path) -> list[Path]:
    """Write the files into `folder`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    application = folder / APPLICATION
    shutil.copyfile(ROOT / "cli" / "spark" / "application.py", application)
    zipped = zip_into(folder)
    beside = folder / "jars"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    lakes = (jar for kind in FORMATS for jar in fetch_lake_jars(kind))
    copies = [
        Path(shutil.copy(jar, beside))
        for jar in (*fetch_connector_jars(), *postgres_jars(), *lakes)
    ]
    return [application, zipped, *copies]


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
