"""Chooses the codec once, when a process first needs it.

The native codec is used if it was built and if aiokafka fits it (`codec.seams`), else the plain
one. INORDER_CODEC=plain forces the plain codec. With INORDER_CODEC=native, a missing native codec
raises ImportError. `AT_WORK` names the codec in use, and the reason if it is the plain one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from codec.seams import MISFIT

__all__ = ["AT_WORK", "EventReader", "EventWriter", "make_scan", "memory_records", "new_batch"]

WANTED: Final = os.environ.get("INORDER_CODEC", "")

if WANTED not in {"", "plain", "native"}:
    raise ImportError(
        f"INORDER_CODEC={WANTED} is not a codec; write plain or native, or leave it unset"
    )
if MISFIT and WANTED == "native":
    raise ImportError(f"INORDER_CODEC=native, but {MISFIT}")

IS_NATIVE: Final = not MISFIT and WANTED != "plain"
AT_WORK: Final = (
    "native" if IS_NATIVE else f"plain: {'INORDER_CODEC=plain' if WANTED == 'plain' else MISFIT}"
)

if TYPE_CHECKING or not IS_NATIVE:
    from codec.plain import EventReader, EventWriter, make_scan, memory_records, new_batch
else:
    from codec.native.batches import EventWriter, new_batch
    from codec.native.events import EventReader
    from codec.native.records import memory_records
    from codec.native.scanner import make_scan
