"""Ship the project's packages to executors, as one zip of Python files.

Compiled extensions for this machine are left out, and so are files that Python can generate again.
The dependencies (`infra/locks/run.txt`, or the wheel's) must be installed on the executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from spark_analytics.submitted import is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("inorder", "topology", "codec", "agents", "recordings", "spark_analytics", "cli")
NOT_FILES: Final = {".pyc", ".so"}
ZIPPED: Final = "inorder.zip"
STAMP: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every zip entry, the earliest that the format allows.

With a fixed time the same files give the same archive.
"""


def zip_into(folder: Path) -> Path:
    """Write the zip into `folder` and return its path."""
    zipped = folder / ZIPPED
    with ZipFile(zipped, "w", ZIP_DEFLATED) as archive:
        for file in _files():
            entry = ZipInfo(file.relative_to(ROOT).as_posix(), STAMP)
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return zipped


@contextmanager
def ship(spark: SparkSession) -> Iterator[None]:
    """Let executors on other machines import the packages within the context.

    Under spark-submit, `--py-files` does this. On one machine, nothing needs to be done.
    """
    from spark_analytics.session import require_java

    require_java(spark, "Python code that works on rows")
    if is_submitted() or str(spark.sparkContext.master).startswith("local"):
        yield
        return
    with TemporaryDirectory() as folder:
        spark.sparkContext.addPyFile(str(zip_into(Path(folder))))
        yield


def _files() -> list[Path]:
    found = (file for room in ROOMS for file in (ROOT / room).rglob("*") if file.is_file())
    return sorted(file for file in found if file.suffix not in NOT_FILES)
