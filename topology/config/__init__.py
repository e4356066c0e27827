"""The topology file: what runs, read from one typed description.

`parse(text)` gives a frozen `Topology` or raises one `TopologyError` that holds
every problem found: path, line, what is wrong, what to write instead. Nothing is
read from disk here. All keys have a default but `streams`; an unknown key is an
error anywhere, and so is a key that is there twice.

In code the sections take their Python names, whose units come last
(`ReorderConfig(rule="fixed", max_wait_ns=500_000_000)`); a mistake there is
pydantic's `ValidationError`. The rooms of this package: `stream`, `stages`, `window`,
`join`, `query`, `topology`, and `reading`, which puts paths and lines to what these
refuse. REORDER, CLOCK and MERGE have their sections in their own folders (`settings`);
what all sections share is `topology.spelling`: problems, durations, sizes, shares.
"""

from topology.clock.settings import ClockConfig
from topology.config.experimental import QueryMethods, StreamMethods
from topology.config.fields import FieldsConfig
from topology.config.file import TopicsConfig
from topology.config.join import SideConfig
from topology.config.query import QualityConfig, QueryConfig, SpeculateConfig, pattern
from topology.config.reading import parse, parse_with
from topology.config.schema import SchemaConfig
from topology.config.stages import StageConfig
from topology.config.stream import HeaderConfig, StreamConfig
from topology.config.topology import Topology
from topology.join.config import JoinCondition, JoinedValue
from topology.merge.settings import MergeConfig
from topology.reorder.settings import ReorderConfig
from topology.spelling.problem import Problem, TopologyError
from topology.window.config import Aggregate, Window

__all__ = [
    "Aggregate",
    "ClockConfig",
    "FieldsConfig",
    "HeaderConfig",
    "JoinCondition",
    "JoinedValue",
    "MergeConfig",
    "Problem",
    "QualityConfig",
    "QueryConfig",
    "QueryMethods",
    "ReorderConfig",
    "SchemaConfig",
    "SideConfig",
    "SpeculateConfig",
    "StageConfig",
    "StreamConfig",
    "StreamMethods",
    "TopicsConfig",
    "Topology",
    "TopologyError",
    "Window",
    "parse",
    "parse_with",
    "pattern",
]
