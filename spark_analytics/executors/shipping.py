"""Our own code for executors: the rooms as one zip of Python files.

What is compiled for this machine stays out, and so does what Python can make again. What else they
import (`infra/locks/run.txt`, or the wheel's dependencies) has to be installed where executors run.
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
"""The earliest that a zip knows: the same files give the same archive."""


def zip_into(folder: Path) -> Path:
    """The zip, below `folder`."""
    zipped = folder / ZIPPED
    with ZipFile(zipped, "w", ZIP_DEFLATED) as archive:
        for file in _files():
            entry = ZipInfo(file.relative_to(ROOT).as_posix(), STAMP)
            entry.compress_type = ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return zipped


@contextmanager
def shipped(spark: SparkSession) -> Iterator[None]:
    """Executors elsewhere can import the rooms. Under spark-submit `--py-files` brings them."""
    from spark_analytics.session import require_java

    require_java(spark, "work on rows by our own code")
    if is_submitted() or str(spark.sparkContext.master).startswith("local"):
        yield
        return
    with TemporaryDirectory() as folder:
        spark.sparkContext.addPyFile(str(zip_into(Path(folder))))
        yield


def _files() -> list[Path]:
    found = (file for room in ROOMS for file in (ROOT / room).rglob("*") if file.is_file())
    return sorted(file for file in found if file.suffix not in NOT_FILES)
