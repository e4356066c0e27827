"""Define the content of the files of a state, and check it.

Anybody with write access to a folder of tables may write these files. The files that they name are
read, moved and deleted with the rights of the user who resumes. A state may therefore name only
single files below known folders, and one folder: the staging folder of a run. That folder is beside
the tables, and has a name that only runs use (`place.own_folder`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spark_analytics.backfill.kinds import TABLES, File

CURRENT: Final = "current.json"
ENDED: Final = "ended"

Known = dict[str, Any]
"""The notes of a run.

If `ended` is true, the run emitted all buffered events, and the OPEN keys are absent.

- `run` is the number of the run, and `topology` has its digests.
- `begin` is a Beginning.
- `files` has, by path, the size in bytes and the time of the last write.
- `offsets` has the last offset by `topic/partition`.
- `places` has the partitions of each stream, and `sources` the same by stream and source.
- `cut` is the time up to which archives were complete (`spark_analytics.backfill.cut`); None if no
  archive was read.
- `states` has the file name by group, and `tables` is a `resuming.TableForm`.
"""

WHOLE: Final[Mapping[str, type]] = {"run": int, "topology": dict, "tables": list}
OPEN: Final[Mapping[str, type]] = {"begin": list, "files": dict, "offsets": dict, "states": dict}
"""The further keys of `Known` if the run kept events buffered, with their types in JSON."""

COMES: Final[Mapping[str, type]] = {
    "run": int, "files": list, "staged": str, "now": dict, "account": dict,
}  # fmt: skip
"""The keys of `coming.json`, which a run writes before it adds its rows, with their types in JSON.
"""


def fault_of(found: Any, *, is_current: bool) -> str:
    """Return a description of the fault in the content of a file, or an empty string."""
    if not isinstance(found, dict):
        return str(found)
    absent = _absent(found, is_current=is_current)
    if absent:
        return f"it lacks {', '.join(absent)}"
    strange = next((repr(name) for name in _names(found) if not _is_plain(name)), None)
    return f"it names {strange}, which is not a file name that a run writes" if strange else ""


def _absent(found: Known, *, is_current: bool) -> list[str]:
    """Return the required keys that are absent, or have a value of another type."""

    def lacks(said: Known, needed: Mapping[str, type]) -> list[str]:
        return [key for key, kind in needed.items() if not isinstance(said.get(key), kind)]

    if is_current and found.get(ENDED):
        return []  # `Resumed` refuses such a file anyway.
    absent = [] if is_current else lacks(found, COMES)
    now = found if is_current or absent else found["now"]
    return absent or lacks(now, WHOLE if now.get(ENDED) else {**WHOLE, **OPEN})


def _names(found: Known) -> Iterator[Any]:
    """Yield each file name in the notes; names are relative to a known folder."""
    states = found.get("now", found).get("states")
    yield from states.values() if isinstance(states, dict) else ()
    files = found["files"] if isinstance(found.get("files"), list) else ()
    for each in files:
        is_file = isinstance(each, list) and len(each) == len(File._fields)
        yield each[1] if is_file and each[0] in [*TABLES] else each


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and not {*"/\\\0"} & {*name}
