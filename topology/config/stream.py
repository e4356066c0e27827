"""One stream: where it comes from, how it is put in order, where it goes.

Names and defaults are those of reorder_drift_merge.md section 8. A field's name
in the file is its alias (`max_wait`), its Python name carries the unit
(`max_wait_ns`); either may be used in code.

Proved by: tests/topology/config/test_reading.py, tests/topology/config/test_problem.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from inorder.contract import HeaderNames, Preset, TimeUnit, clashing, filled
from topology.clock.settings import ClockModel, Sync, Unsynced
from topology.config.by_time import TIME, rule_faults
from topology.config.problem import Fault, refused, refused_at, shown
from topology.config.spelling import (
    MAX_INT,
    Count,
    DurationNs,
    Flag,
    PositiveNs,
    ProbabilityPpm,
    RatePpb,
    SizeBytes,
    TopicName,
    WanderPpbPerMin,
    WeightPpm,
    given,
    is_from_file,
    one_of,
    or_nothing,
    source_name_fault,
    text,
    whole,
)
from topology.merge.settings import Wait
from topology.reorder.settings import EstimatorClock, InferRestart, LatePolicy, Rule, Start
from topology.waiting.strategy import Strategy

MAX_SOURCES_EXPECTED: Final = 100_000


class Section(BaseModel):
    """A mapping of the file: frozen, and a key it does not know is an error.

    In code what is given its default counts as left out, so that `Topology(**dict(topology))`, or
    of a dump, is the topology again. A file says nothing for nothing: what is written there counts.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,  # messages repeat what helps; a URL may hold a password
    )

    @model_validator(mode="before")
    @classmethod
    def _without_defaults(cls, given: Any, info: ValidationInfo) -> Any:
        if is_from_file(info) or not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if not cls._is_default(name, value)}

    @classmethod
    def _is_default(cls, name: Any, value: Any) -> bool:
        field = cls.model_fields.get(name)
        if field is None or field.is_required():
            return False
        default = field.get_default(call_default_factory=True)
        return type(value) is type(default) and bool(value == default)


def _start(value: Any, _: ValidationInfo) -> Any:
    if value == "zero" and isinstance(value, str):
        return 0
    if value == "auto" and isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        raise refused(
            f"{shown(value)} is no start", "write auto, zero or the first number expected"
        )
    return value


_START: Final = {"anyOf": [{"enum": ["auto", "zero"]}, {"type": "integer", "minimum": 0}]}


def _infer_restart(value: Any, _: ValidationInfo) -> Any:
    if isinstance(value, bool) or value == "auto":
        return value
    raise refused(
        f"{shown(value)} is not known here",
        "write auto, true or false",
        "write auto, True or False",
    )


class ReorderConfig(Section):
    """Order within one source: by its sequence numbers, or under `rule: time` by its own
    time. `start: zero` is kept as 0."""

    rule: Annotated[Rule, one_of(Rule)] = "miss"
    strategy: Annotated[Strategy, one_of(Strategy)] = "tail"
    accuracy_ppm: ProbabilityPpm = Field(default=999_000, validation_alias="accuracy")
    wait_ns: DurationNs | None = Field(default=None, validation_alias="wait")
    miss_target_ppm: ProbabilityPpm = Field(default=1_000, validation_alias="miss_target")
    min_wait_ns: DurationNs = Field(default=0, validation_alias="min_wait")
    max_wait_ns: DurationNs = Field(default=500_000_000, validation_alias="max_wait")
    late: Annotated[LatePolicy, one_of(LatePolicy)] = "pass"
    start: Annotated[Start, given(_start, _START)] = "auto"
    infer_restart: Annotated[
        InferRestart, given(_infer_restart, {"enum": ["auto", True, False]})
    ] = "auto"
    seq_bits: Annotated[int, whole(8, 63)] = 63
    max_jump: Count = 1_000_000
    max_held: Count = 100_000
    max_held_total: Count = 1_000_000
    max_held_bytes: SizeBytes = 256 * 2**20
    max_sources: Count = 200_000
    forget_after_ns: PositiveNs = Field(default=86_400_000_000_000, validation_alias="forget_after")
    gap_ranges: Count = 10_000
    gap_memory_ns: PositiveNs = Field(default=3_600_000_000_000, validation_alias="gap_memory")
    alpha_ppm: WeightPpm = Field(default=600_000, validation_alias="alpha")
    beta_ppm: WeightPpm = Field(default=600_000, validation_alias="beta")
    estimator_clock: Annotated[EstimatorClock, one_of(EstimatorClock)] = "arrival"

    @property
    def numbered(self) -> bool:
        """Its records must bear sequence numbers."""
        return self.rule != TIME

    @model_validator(mode="after")
    def _bounds_agree(self) -> ReorderConfig:
        faults = list(rule_faults(self))
        if self.min_wait_ns > self.max_wait_ns:
            message = f"{self.min_wait_ns} ns is more than max_wait ({self.max_wait_ns} ns)"
            faults.append(Fault(("min_wait",), message, "lower min_wait or raise max_wait"))
        if isinstance(self.start, int) and self.start >= 1 << self.seq_bits:
            message = f"{self.start} does not fit {self.seq_bits} bits"
            faults.append(Fault(("start",), message, "lower start or raise seq_bits"))
        if faults:
            raise refused_at(*faults)
        return self


MAX_SERVERS: Final = 8
"""Time servers whose rounds `topology.clock.measured` keeps for a source."""
MAX_SKEW_PPB: Final = 10_000_000
"""A clock that runs one per cent wrong is no clock."""


class ClockConfig(Section):
    """How a source's clock is measured, and how far it is believed."""

    sync: Annotated[Sync, one_of(Sync)] = "udp"
    model: Annotated[ClockModel, one_of(ClockModel)] = "polygon"
    unsynced: Annotated[Unsynced, one_of(Unsynced)] = "estimate"
    max_ahead_ns: DurationNs = Field(default=3_600_000_000_000, validation_alias="max_ahead")
    max_behind_ns: PositiveNs = Field(default=MAX_INT, validation_alias="max_behind")
    servers: Annotated[int, whole(1, MAX_SERVERS)] = 1
    max_error_ns: PositiveNs = Field(default=20_000_000, validation_alias="max_error")
    sync_window_ns: PositiveNs = Field(default=300_000_000_000, validation_alias="sync_window")
    stale_after_ns: PositiveNs = Field(default=180_000_000_000, validation_alias="stale_after")
    max_rtt_ns: PositiveNs = Field(default=1_000_000_000, validation_alias="max_rtt")
    max_skew_ppb: RatePpb = Field(default=250_000, validation_alias="max_skew")
    wander_ppb_per_min: WanderPpbPerMin = Field(default=100, validation_alias="wander")
    granularity_ns: DurationNs = Field(default=0, validation_alias="granularity")
    activation_ns: DurationNs = Field(default=1_000_000_000, validation_alias="activation")
    broker_slack_ns: DurationNs = Field(default=1_000_000_000, validation_alias="broker_slack")
    passive_floor_ns: PositiveNs = Field(default=40_000_000, validation_alias="passive_floor")
    mend_above_ns: DurationNs = Field(default=500_000_000, validation_alias="mend_above")
    jump_min_ns: PositiveNs = Field(default=1_000_000_000, validation_alias="jump_min")

    @model_validator(mode="after")
    def _is_a_clock(self) -> ClockConfig:
        if self.max_skew_ppb > MAX_SKEW_PPB:
            message = f"{self.max_skew_ppb} ppb is more than a clock can drift"
            raise refused_at(Fault(("max_skew",), message, "write 10000ppm or less"))
        return self


def _source_names(value: Any, _: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise refused(
            f"{shown(value)} is not a list",
            "write a list of source names: [s1, s2]",
            'write a list of source names: ["s1", "s2"]',
        )
    if len(value) > MAX_SOURCES_EXPECTED:
        remedy = f"name at most {MAX_SOURCES_EXPECTED}"
        raise refused(f"{len(value)} sources are too many to wait for", remedy)
    faults = [
        Fault((at,), fault, "write the source's name, in quotes if it looks like a number")
        for at, name in enumerate(value)
        if (fault := source_name_fault(name))
    ]
    seen: set[Any] = set()
    for at, name in enumerate(value):
        if isinstance(name, str):
            if name in seen:
                faults.append(Fault((at,), f"{shown(name)} stands here twice", "name it once"))
            seen.add(name)
    if faults:
        raise refused_at(*faults)
    return tuple(value)


_SOURCES: Final = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "uniqueItems": True,
    "maxItems": MAX_SOURCES_EXPECTED,
}


class MergeConfig(Section):
    """Order across the sources of the stream. `newcomers`: how far behind W a source that was not
    heard before may begin, so that results are final only so long after; None: the file's
    `correct_for`; 0 where `expected_sources` names them all."""

    wait: Annotated[Wait, one_of(Wait)] = "delay"
    miss_target_ppm: ProbabilityPpm = Field(default=1_000, validation_alias="miss_target")
    max_wait_ns: DurationNs = Field(default=500_000_000, validation_alias="max_wait")
    idle_after_ns: PositiveNs = Field(default=2_000_000_000, validation_alias="idle_after")
    quiet_after_ns: PositiveNs = Field(default=30_000_000_000, validation_alias="quiet_after")
    outage_wait_ns: DurationNs = Field(default=30_000_000_000, validation_alias="outage_wait")
    max_queued: Count = 1_000_000
    max_queued_bytes: SizeBytes = 256 * 2**20
    expected_sources: Annotated[tuple[str, ...], given(_source_names, _SOURCES)] = ()
    newcomers_ns: DurationNs | None = Field(default=None, validation_alias="newcomers")


_Name = Annotated[
    str,
    text(
        r"[!-~]{1,256}",
        "a header name",
        "use 1 to 256 printable ASCII characters without spaces",
    ),
]


KeyedBy = Literal["source", "stream"]


class HeaderConfig(Section):
    """The header contract: a preset, and names that differ from it."""

    preset: Annotated[Preset, one_of(Preset)] = "plain"
    ts_unit: Annotated[TimeUnit, one_of(TimeUnit)] = "ns"
    source: _Name | None = None
    seq: _Name | None = None
    ts: _Name | None = None
    type: _Name | None = None
    epoch: _Name | None = None
    stream: _Name | None = None
    kind: _Name | None = None
    sig: _Name | None = None

    def names(self) -> HeaderNames:
        """The names as they stand on the wire, presets filled in."""
        return filled(self, self.preset)

    def contract(self) -> tuple[HeaderNames, str]:
        """What two configurations must share to read the same records alike."""
        return self.names(), self.ts_unit

    @model_validator(mode="after")
    def _names_differ(self) -> HeaderConfig:
        faults = [
            Fault(
                (field,),
                f"the header `{name}` already stands for {taken}",
                "give each field a header of its own",
            )
            for field, name, taken in clashing(self.names())
        ]
        if faults:
            raise refused_at(*faults)
        return self


class StreamConfig(Section):
    """One stream; every part may be left out."""

    input: TopicName = "events.raw"
    output: TopicName = "events.ordered"
    keyed_by: Annotated[KeyedBy, one_of(KeyedBy)] = "source"
    signed: Flag = False
    headers: Annotated[HeaderConfig, or_nothing(HeaderConfig)] = HeaderConfig()
    reorder: Annotated[ReorderConfig, or_nothing(ReorderConfig)] = ReorderConfig()
    clock: Annotated[ClockConfig, or_nothing(ClockConfig)] = ClockConfig()
    merge: Annotated[MergeConfig, or_nothing(MergeConfig)] = MergeConfig()
