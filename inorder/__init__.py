"""Publish events that can be put back in order, and read the results with types.

    SequencedProducer        numbers, stamps and publishes the events of a source
    HeaderContract           names the headers, if they differ from the default
    SyncClient, ...          measures the source's clock in the background
    record_of, current, ...  read the results of a worker's topics as typed records

`pip install inorder` installs these names and orjson. SequencedProducer also needs a Kafka client:
`pip install 'inorder[kafka]'`. If `inorder-engine` is installed as well, there are also:

    Topology, parse, replay  topologies in code, and their replay in this process
    inorder.engine           all parts of a topology in code
    inorder.testing          tests of your own topologies and functions

Each name is imported on first use. A program that only reads results loads no Kafka client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inorder.channel import ChannelLimits as ChannelLimits
    from inorder.channel import Delivery as Delivery
    from inorder.contract import HeaderContract as HeaderContract
    from inorder.engine import Topology as Topology
    from inorder.engine import TopologyError as TopologyError
    from inorder.engine import parse as parse
    from inorder.engine import replay as replay
    from inorder.failure import BrokerFatal as BrokerFatal
    from inorder.failure import DeliveryFailed as DeliveryFailed
    from inorder.failure import FlushTimeout as FlushTimeout
    from inorder.failure import ForkedError as ForkedError
    from inorder.failure import JournalError as JournalError
    from inorder.failure import ProducerError as ProducerError
    from inorder.failure import QueueFull as QueueFull
    from inorder.failure import RecordRefused as RecordRefused
    from inorder.records import ClockOffset as ClockOffset
    from inorder.records import ClockSample as ClockSample
    from inorder.records import DeadRecord as DeadRecord
    from inorder.records import DuplicateRecord as DuplicateRecord
    from inorder.records import GapRecord as GapRecord
    from inorder.records import JoinRecord as JoinRecord
    from inorder.records import LateRecord as LateRecord
    from inorder.records import MatchRecord as MatchRecord
    from inorder.records import MatchSetRecord as MatchSetRecord
    from inorder.records import OrderedEvent as OrderedEvent
    from inorder.records import OverflowRecord as OverflowRecord
    from inorder.records import RawEvent as RawEvent
    from inorder.records import Record as Record
    from inorder.records import RetractRecord as RetractRecord
    from inorder.records import WindowRecord as WindowRecord
    from inorder.records import current as current
    from inorder.records import ordered_event as ordered_event
    from inorder.records import record_of as record_of
    from inorder.resending import Resend as Resend
    from inorder.sequenced import SequencedProducer as SequencedProducer
    from inorder.signing_keys import SigningKey as SigningKey
    from inorder.sync import KeyRing as KeyRing
    from inorder.sync import SyncClient as SyncClient
    from inorder.sync import SyncSettings as SyncSettings

_HOMES = {
    "channel": "ChannelLimits Delivery",
    "contract": "HeaderContract",
    "engine": "Topology TopologyError parse replay",
    "failure": "BrokerFatal DeliveryFailed FlushTimeout ForkedError JournalError ProducerError"
    " QueueFull RecordRefused",
    "records": "ClockOffset ClockSample DeadRecord DuplicateRecord GapRecord JoinRecord LateRecord"
    " MatchRecord MatchSetRecord OrderedEvent OverflowRecord RawEvent Record RetractRecord"
    " WindowRecord current ordered_event record_of",
    "resending": "Resend",
    "sequenced": "SequencedProducer",
    "signing_keys": "SigningKey",
    "sync": "KeyRing SyncClient SyncSettings",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'inorder' has no attribute {name!r}")
    value: object = getattr(import_module(f"inorder.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
