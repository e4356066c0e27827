"""Example: a Python process of Spark reads no zip again between tasks."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

WORDS = """
import gc, importlib, sys, zipimport
sys.path.insert(0, sys.argv[1])
import one.first
from spark_analytics.executors import task_process
zips = lambda: [each for each in sys.path_importer_cache if each.startswith(sys.argv[1])]
assert len(zips()) == 2, zips()
task_process.begin()
frozen = gc.get_freeze_count()
held = [[] for _ in range(1000)]
task_process.begin()
assert frozen > 1_000
assert gc.get_freeze_count() == frozen
assert gc.get_threshold()[0] > 100_000
assert zips() == []
importlib.invalidate_caches()
import one.second
print(one.second.NAME)
"""


def test_task_process_reads_no_zip_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as file:
        for name in ("__init__", "first", "second"):
            file.writestr(f"one/{name}.py", f"NAME = {name!r}\n")
    words = (sys.executable, "-c", WORDS, str(tmp_path / "code.zip"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("second\n", 0), done.stderr
