"""What our tasks do first in a Python process of Spark's, which is used again for task after task.

Between two tasks Spark has such a process look for garbage in all that it holds, modules above all,
and forget what it knows of the places that modules come from. Spark's own modules come from a zip
there, and ours on a cluster: in Python 3.11 to forget a zip is to read its list of files anew, once
for each folder of it that a module was imported from. Together they took 0.13 s of CPU for
each task, which is what a task orders some thousand events in (docs/decisions/0020). So what is
here stays out of the collector's way, and no zip is among the forgotten places; a module that is
imported later finds its zip by the list that Python keeps of each.
"""

from __future__ import annotations

import sys
from functools import cache
from zipimport import zipimporter

from agents.process import garbage


def begin() -> None:
    """At the start of each task."""
    _begin_once()
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


@cache
def _begin_once() -> None:
    """What a task keeps alive is no garbage, and walking it takes a tenth of its time; as in a
    worker. Once: what later tasks hold is not to stay."""
    garbage.begin()
