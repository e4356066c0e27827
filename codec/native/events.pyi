from collections.abc import Callable, Sequence
from typing import final

from codec.face import Clock, Form, General, Record
from inorder.contract import HeaderNames
from topology.base.event import Event
from topology.base.outcome import Malformed

def contract_number(names: HeaderNames) -> int: ...

@final
class EventReader:
    def __init__(self, form: Form, general: General) -> None: ...
    def read(
        self,
        records: Sequence[Record],
        clock: Clock,
        read_at_ns: int,
        events: list[Event],
        aside: Callable[[Event | Malformed], None],
    ) -> None: ...
