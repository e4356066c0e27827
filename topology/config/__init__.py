"""Reads the topology file, one typed description of everything that runs.

`parse(text)` returns a frozen `Topology`, or raises one `TopologyError` with every problem found:
its path, line, fault and remedy. This package opens no files: the caller of `parse` passes a
function that loads the user's functions file. Every top-level key except `streams` has a default.
An unknown key is always an error, and so is a key that occurs twice.

In code, fields have their Python names, with the unit at the end (`ReorderConfig(rule="fixed",
max_wait_ns=500_000_000)`). A mistake there raises pydantic's `ValidationError`. The modules
`stream`, `stages`, `query`, `file` and `topology` define the sections, and `reading` adds paths and
lines to their errors. The sections of operators are in the operators' own packages (`settings`).
`topology.spelling` has the parts that all sections share: problems, durations, sizes, shares.
"""

from topology.answer.settings import QualityConfig as QualityConfig
from topology.config.fields import FieldsConfig as FieldsConfig
from topology.config.file import TopicsConfig as TopicsConfig
from topology.config.query import QueryConfig as QueryConfig
from topology.config.reading import parse as parse
from topology.config.reading import parse_with as parse_with
from topology.config.schema import SchemaConfig as SchemaConfig
from topology.config.stages import StageConfig as StageConfig
from topology.config.stream import HeaderConfig as HeaderConfig
from topology.config.stream import StreamConfig as StreamConfig
from topology.config.topology import Topology as Topology
from topology.order.clock.settings import ClockConfig as ClockConfig
from topology.order.merge.settings import MergeConfig as MergeConfig
from topology.order.reorder.settings import ReorderConfig as ReorderConfig
from topology.queries.detector.settings import DetectorQuery as DetectorQuery
from topology.queries.detector.settings import SpeculateConfig as SpeculateConfig
from topology.queries.join.settings import JoinCondition as JoinCondition
from topology.queries.join.settings import JoinedValue as JoinedValue
from topology.queries.join.settings import JoinQuery as JoinQuery
from topology.queries.join.settings import SideConfig as SideConfig
from topology.queries.pattern.settings import PatternQuery as PatternQuery
from topology.queries.pattern.settings import pattern as pattern
from topology.queries.window.settings import Aggregate as Aggregate
from topology.queries.window.settings import Window as Window
from topology.queries.window.settings import WindowQuery as WindowQuery
from topology.spelling.problem import Problem as Problem
from topology.spelling.problem import TopologyError as TopologyError
