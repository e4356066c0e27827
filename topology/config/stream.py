"""One stream: where it comes from, how it is put in order, where it goes.

Names and defaults are those of reorder_drift_merge.md section 8. A field's name
in the file is its alias (`max_wait`), its Python name carries the unit
(`max_wait_ns`); either may be used in code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import (
    Field,
    ValidationInfo,
    model_validator,
)

from inorder.contract import HeaderNames, Preset, TimeUnit, clashing, filled
from topology.clock.settings import Sync, Unsynced
from topology.config.by_time import TIME, rule_faults
from topology.config.experimental import StreamMethods, reorder_faults
from topology.config.fields import (
    PLACES,
    FieldsConfig,
    Format,
    KeyFormat,
    ZoneName,
)
from topology.config.problem import Fault, refused, refused_at, shown
from topology.config.section import Section
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
    given,
    one_of,
    or_nothing,
    source_name_fault,
    text,
    whole,
)
from topology.fields.mapping import Fields
from topology.model.one_clock import Play
from topology.reorder.settings import InferRestart, LatePolicy, Rule, Start
from topology.waiting.strategy import Strategy

MAX_SOURCES_EXPECTED: Final = 100_000


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


MOVED_RULES: Final = {
    rule: f"write experimental: {{reorder: {rule}}} beside `reorder`" for rule in ("thesis", "rfc")
}
MOVED_STRATEGIES: Final = {"mp": "write experimental: {reorder: mp} beside `reorder`"}
"""What to write in place of a method of a paper."""


class ReorderConfig(Section):
    """Order within one source: by its sequence numbers, or under `rule: time` by its own
    time. `start: zero` is kept as 0."""

    rule: Annotated[Rule, one_of(Rule, MOVED_RULES)] = "miss"
    """How long a hole is waited for; `time`: sources that number nothing."""
    strategy: Annotated[Strategy, one_of(Strategy, MOVED_STRATEGIES)] = "tail"
    """Under `rule: time`, how long an event waits."""
    accuracy_ppm: ProbabilityPpm = Field(default=999_000, validation_alias="accuracy")
    """Under `strategy: tail`, the share of events in order."""
    wait_ns: DurationNs | None = Field(default=None, validation_alias="wait")
    """Under `strategy: fixed`, how long."""
    miss_target_ppm: ProbabilityPpm = Field(default=1_000, validation_alias="miss_target")
    """Under `rule: miss`, the share of holes that may outlive their wait."""
    max_wait_ns: DurationNs = Field(default=500_000_000, validation_alias="max_wait")
    """No hole is waited for longer."""
    late: Annotated[LatePolicy, one_of(LatePolicy)] = "pass"
    """What becomes of late events: passed on with a mark, dropped, or to `topics.late`."""
    start: Annotated[Start, given(_start, _START)] = "auto"
    """The first number of a source; `auto` waits a little for smaller ones."""
    infer_restart: Annotated[
        InferRestart, given(_infer_restart, {"enum": ["auto", True, False]})
    ] = "auto"
    """Whether small numbers after large ones are a new epoch."""
    seq_bits: Annotated[int, whole(8, 63)] = 63
    """The width of a counter that wraps."""
    max_jump: Count = 1_000_000
    """A number further ahead has to be confirmed by another near it."""
    max_held: Count = 100_000
    """Events held of one source; at the bound its oldest hole is given up."""
    max_held_total: Count = 1_000_000
    """Events held of all sources of a stream in a partition."""
    max_held_bytes: SizeBytes = 256 * 2**20
    """The same in bytes."""
    max_sources: Count = 200_000
    """Sources remembered; beyond, the longest idle one is forgotten."""
    forget_after_ns: PositiveNs = Field(default=86_400_000_000_000, validation_alias="forget_after")
    """A source silent for so long that holds nothing is forgotten."""
    gap_ranges: Count = 10_000
    """Lost stretches remembered of a source, to distinguish late ones from copies."""
    gap_memory_ns: PositiveNs = Field(default=3_600_000_000_000, validation_alias="gap_memory")
    """How long they are remembered."""

    @property
    def numbered(self) -> bool:
        """Its records must bear sequence numbers."""
        return self.rule != TIME

    @model_validator(mode="after")
    def _bounds_agree(self) -> ReorderConfig:
        faults = list(rule_faults(self))
        if isinstance(self.start, int) and self.start >= 1 << self.seq_bits:
            message = f"{self.start} does not fit {self.seq_bits} bits"
            faults.append(Fault(("start",), message, "lower start or raise seq_bits"))
        if faults:
            raise refused_at(*faults)
        return self


MAX_SERVERS: Final = 8
"""Time servers whose rounds `topology.clock.measured` keeps for a source."""
PPB_PER_PPM: Final = 1_000
MAX_SKEW_PPB: Final = 10_000_000
"""A clock that runs one per cent wrong is no clock."""


class ClockConfig(Section):
    """How a source's clock is measured, and how far it is believed."""

    sync: Annotated[Sync, one_of(Sync)] = "udp"
    """`none`: samples are without effect, and the clock topic is not read."""
    unsynced: Annotated[Unsynced, one_of(Unsynced)] = "estimate"
    """What an event of a source that has not synced gets."""
    max_ahead_ns: DurationNs = Field(default=3_600_000_000_000, validation_alias="max_ahead")
    """A trusted stamp further after its arrival is dead."""
    max_behind_ns: PositiveNs = Field(default=MAX_INT, validation_alias="max_behind")
    """An event whose time lies further before its arrival is dead."""
    servers: Annotated[int, whole(1, MAX_SERVERS)] = 1
    """How many time servers a source syncs with: most of them have to agree."""
    max_error_ns: PositiveNs = Field(default=20_000_000, validation_alias="max_error")
    """A source less sure than that counts as unsynced."""
    sync_window_ns: PositiveNs = Field(default=300_000_000_000, validation_alias="sync_window")
    """How long a round of time sync counts."""
    max_skew_ppb: RatePpb = Field(default=250_000, validation_alias="max_skew")
    """How fast a clock may drift; too small breaks the stated error."""
    wander_ppb_per_min: WanderPpbPerMin = Field(default=100, validation_alias="wander")
    """How fast its rate may change."""
    granularity_ns: DurationNs = Field(default=0, validation_alias="granularity")
    """How fine the source's clock and the server's can be read."""
    activation_ns: DurationNs = Field(default=1_000_000_000, validation_alias="activation")
    """From a sample's arrival until it applies."""
    broker_slack_ns: DurationNs = Field(default=1_000_000_000, validation_alias="broker_slack")
    """How far the broker's clock may be off before an event refutes its source."""
    mend_above_ns: DurationNs = Field(default=500_000_000, validation_alias="mend_above")
    """A clock that is behind by less is left alone (`estimate`)."""
    jump_min_ns: PositiveNs = Field(default=1_000_000_000, validation_alias="jump_min")
    """What counts as a jump seen in events."""

    @property
    def play(self) -> Play:
        return Play(-(-self.max_skew_ppb // PPB_PER_PPM), self.granularity_ns)

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
                faults.append(Fault((at,), f"{shown(name)} appears here twice", "name it once"))
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


MergeWait = Literal["delay"]
MOVED_WAITS: Final = {"thesis": "write experimental: {merge: thesis} beside `merge`"}


class MergeConfig(Section):
    """Order across the sources of the stream. `newcomers`: how far behind W a source that was not
    heard before may begin, so that results are final only so long after; None: the file's
    `correct_for`; 0 where `expected_sources` names them all."""

    wait: Annotated[MergeWait, one_of(MergeWait, moved=MOVED_WAITS)] = "delay"
    """How long a silent source is waited for: as long as its delays call for."""
    miss_target_ppm: ProbabilityPpm = Field(default=1_000, validation_alias="miss_target")
    """The share of events that may come later than they are waited for."""
    max_wait_ns: DurationNs = Field(default=500_000_000, validation_alias="max_wait")
    """No source is waited for longer."""
    idle_after_ns: PositiveNs = Field(default=2_000_000_000, validation_alias="idle_after")
    """A source silent for so long, and longer than usual, holds nobody back."""
    quiet_after_ns: PositiveNs = Field(default=30_000_000_000, validation_alias="quiet_after")
    """Every source silent for so long: the watermark follows the clock."""
    outage_wait_ns: DurationNs = Field(default=30_000_000_000, validation_alias="outage_wait")
    """How long at most sources are awaited after a pause of the log."""
    max_queued: Count = 1_000_000
    """Events queued of a stream; at the bound order gives way, counted."""
    max_queued_bytes: SizeBytes = 256 * 2**20
    """The same in bytes."""
    expected_sources: Annotated[tuple[str, ...], given(_source_names, _SOURCES)] = ()
    """Sources that are waited for before they were first heard, for `max_wait` from the first event
    of all."""
    newcomers_ns: DurationNs | None = Field(default=None, validation_alias="newcomers")
    """Room for sources not heard before: how far results stay open for them; left out,
    `correct_for`."""


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
    """The names all others differ from."""
    ts_unit: Annotated[TimeUnit, one_of(TimeUnit)] = "ns"
    """The unit of `ts` in headers and in lines of `replay` and `produce`."""
    source: _Name | None = None
    """The header of the source's name (`sourceId`)."""
    seq: _Name | None = None
    """The header of the sequence number (`seqNum`)."""
    ts: _Name | None = None
    """The header of the source's own time (`ts`)."""
    type: _Name | None = None
    """The header of the event's type (`type`)."""
    epoch: _Name | None = None
    """The header of the source's incarnation (`epoch`)."""
    stream: _Name | None = None
    """The header of the stream's name (`streamId`)."""
    kind: _Name | None = None
    """The header that marks heartbeats and byes (`kind`)."""
    sig: _Name | None = None
    """The header of the signature (`sig`), in streams that are `signed`."""

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
                f"the header `{name}` already means {taken}",
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
    """The topic that producers write to."""
    output: TopicName = "events.ordered"
    """The topic of events in order."""
    keyed_by: Annotated[KeyedBy, one_of(KeyedBy)] = "source"
    """What producers key the input's records by. With `stream` each stream lies in one partition,
    and reorder and merge are one stage."""
    signed: Flag = False
    """Whether each record has to bear the signature of the source that it names
    (`INORDER_MASTER_KEYS_FILE`); one that does not is dead, `unsigned` or `forged`."""
    headers: Annotated[HeaderConfig, or_nothing(HeaderConfig)] = HeaderConfig()
    """What the headers of records are called, and the unit of `ts`."""
    fields: Annotated[FieldsConfig | None, or_nothing(FieldsConfig)] = None
    """Where records of others have source, number and time; streams of one input share it."""
    format: Annotated[Format, one_of(Format)] = "json"
    """The format of values."""
    key_format: Annotated[KeyFormat, one_of(KeyFormat)] | None = None
    """The format of keys, where `fields` names some of theirs; left out, a key is text."""
    ts_unit: Annotated[TimeUnit, one_of(TimeUnit)] | None = None
    """The unit of a mapped `ts` that is a number; left out, ns."""
    ts_zone: ZoneName | None = None
    """The time zone of a mapped `ts` that names none; left out, such a record is dead."""
    reorder: Annotated[ReorderConfig, or_nothing(ReorderConfig)] = ReorderConfig()
    """Order within one source."""
    clock: Annotated[ClockConfig, or_nothing(ClockConfig)] = ClockConfig()
    """How the clocks of sources are measured, and how far they are believed."""
    merge: Annotated[MergeConfig, or_nothing(MergeConfig)] = MergeConfig()
    """Order across the sources of the stream."""
    experimental: Annotated[StreamMethods, or_nothing(StreamMethods)] = StreamMethods()
    """Methods of papers in place of ours, to be compared with."""

    @model_validator(mode="after")
    def _methods_fit(self) -> StreamConfig:
        reorder = self.reorder
        faults = list(reorder_faults(self.experimental, reorder.rule, reorder.model_fields_set))
        faults += _mapping_faults(self)
        if faults:
            raise refused_at(*faults)
        return self

    def mapping(self) -> Fields | None:
        """Where its records bear their fields; None: by the header contract."""
        if self.fields is None:
            return None
        return self.fields.places(self.ts_unit or "ns", self.ts_zone or "")

    def reading(self) -> tuple[object, ...]:
        """What streams of one input topic must share to read its records alike."""
        return self.mapping(), self.format, self.key_format


def _mapping_faults(stream: StreamConfig) -> Iterator[Fault]:
    """What does not fit a mapping, in one stream."""
    fields = stream.fields
    if fields is None:
        for key in ("ts_unit", "ts_zone", "key_format"):
            if getattr(stream, key) is not None:
                remedy = "add `fields`; for the header contract write headers: {ts_unit: ms}"
                yield Fault((key,), "is of a mapping, and there is none", remedy)
        return
    if stream.signed:
        message = "signatures are of the header contract's own headers"
        yield Fault(("fields",), message, "leave `fields` out, or write signed: false")
    if "headers" in stream.model_fields_set:
        message = "names places of fields, and `fields` does too"
        yield Fault(("headers",), message, "leave `headers` out; write header.NAME in `fields`")
    places = fields.places()
    if places.seq is None and stream.reorder.numbered:
        remedy = "write seq: payload.NAME, or reorder: {rule: time} where sources number nothing"
        yield Fault(("fields", "seq"), "is missing", remedy)
    for name in PLACES:
        where = getattr(places, name)
        if where is not None and where.place == "key" and where.path and stream.key_format is None:
            message = f"`{where}` is a field of the key, whose format is not said"
            yield Fault(("fields", name), message, "write key_format: json beside `fields`")
