from collections.abc import Iterable
from typing import Any, final

from topology.base.payload import Scan

def make_scan(names: Iterable[str]) -> Scan: ...

@final
class Scanner:
    def __init__(self, names: Iterable[str]) -> None: ...
    def read(self, value: bytes) -> dict[str, Any] | None: ...
