"""Prepare a Python process of Spark for a task; Spark uses the same process for many tasks.

After each task Spark makes the process collect garbage among all its objects, mostly modules, and
clear the caches of its import paths. Spark's own modules come from a zip, and ours do so on a
cluster. Python 3.11 then reads the zip's list of files again, once for each of its folders that a
module was imported from. Both together took 0.13 s of CPU for each task, as long as ordering some
thousand events (docs/decisions/0020).

Existing objects are therefore excluded from garbage collection, and zips are removed from the
cached paths. A module that is imported later is still found, because Python keeps each zip's list
of files elsewhere.
"""

from __future__ import annotations

import sys
from functools import cache
from zipimport import zipimporter

from agents.process import garbage


def begin() -> None:
    """Prepare the process at the start of each task."""
    _freeze_objects()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


@cache
def _freeze_objects() -> None:
    """Exclude the existing objects from garbage collection, as a worker does.

    Traversing these objects takes a tenth of a task's time. They are excluded once per process, so
    that objects of later tasks can still be collected.
    """
    garbage.begin()
