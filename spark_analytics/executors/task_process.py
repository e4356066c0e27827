"""Prepare a Python process of Spark for a task; Spark uses the same process for task after task.

Between two tasks Spark has such a process collect garbage among all its objects, mostly modules. It
also has the process forget what it has cached about import paths. Spark's own modules come from a
zip, and ours do so on a cluster. In Python 3.11 forgetting a zip means reading its list of files
again, once for each of its folders that a module was imported from. Both together took 0.13 s of
CPU for each task, in which a task orders some thousand events (docs/decisions/0020).

Existing objects are therefore kept out of the collector's way, and zips are removed from the cached
paths. A module that is imported later finds its zip by the list that Python keeps of each.
"""

from __future__ import annotations

import sys
from functools import cache
from zipimport import zipimporter

from agents.process import garbage


def begin() -> None:
    """Prepare the process at the start of each task."""
    _begin_once()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


@cache
def _begin_once() -> None:
    """Exclude the existing objects from garbage collection, as a worker does.

    Traversing them takes a tenth of a task's time. It is done once per process, so that objects of
    later tasks can still be collected.
    """
    garbage.begin()
