"""The cases of `make answers`: the examples; then each operator, answer rule and match mode, on
worlds of fresh seeds."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import yaml

from benchmarks import traces
from tests.answers.worlds import Line, World

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SPELLINGS = ROOT / "tests" / "topology" / "pattern" / "spellings.yaml"

TRACE_ROWS = 1_500
"""The first of each recorded trace."""


@dataclass(frozen=True)
class Case:
    """One run of `inorder COMMAND ARGS EVENTS`.

    Where `topology` has a path, the run is also made in pieces, each from the snapshot of the one
    before. `functions` is the path of the file of detectors that it names."""

    name: str
    command: str
    args: tuple[str, ...]
    events: str
    topology: str = ""
    functions: str = ""

    def answered(self, lines: Sequence[str]) -> bool:
        """Return whether these lines of its run end well and have a result of each query."""
        whole = "exit 0" in lines and (not self.topology or lines[-1].startswith("Balance("))
        wanted = ["{"]
        if self.command == "match":
            wanted = ['"query":"']
        elif self.topology:
            queries = yaml.safe_load(Path(self.topology).read_text()).get("queries") or {}
            wanted += [f'"query":"{name}"' for name in queries]
        found = [line for line in lines if line.startswith("{")]
        return whole and all(any(text in line for line in found) for text in wanted)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


BELIEVED = "clock: {unsynced: trust}"
PLAIN = World()
SOUND = World(bad=0)
LARGER = World(count=1_200, sources=12)
WITHOUT_ARRIVALS = World(has_arrivals=False)
SKEWED = World(skew_ms=400)
TWO = World(streams=("a", "b"), sources=6)
FORGETFUL = World(restarts=0.01, lost=0.05, pauses=0.05)
WRAPPED = World(wraps_at=256, count=1_200, sources=2)
UNNUMBERED = World(unnumbered=2)
COARSE = World(coarse_ms=1_000)
IN_ORDER = World(
    count=2_000, step_ms=4, delay_ms=2, late=0, lost=0, copied=0, bad=0, control=0, pauses=0
)
FEW_SKEWED = World(count=120, skew_ms=400)
SPELLED = World(values=(7, 8, 9, 10, 11, 12))
"""The values that the rows of the spellings have."""
LEARNED = World(count=2_500, sources=3, step_ms=20, late=0.3, late_ms=200, pauses=0)

STREAMS: dict[str, tuple[str, World]] = {
    "defaults": ("{}", PLAIN),
    "defaults, more sources": ("{}", LARGER),
    "defaults, clocks that are wrong": ("{}", SKEWED),
    "defaults, restarts": ("{}", FORGETFUL),
    "defaults, without arrivals": ("{}", WITHOUT_ARRIVALS),
    "in order": ("{}", IN_ORDER),
    "waits that are learned": ("{reorder: {max_wait: 5s, miss_target: 1%}}", LEARNED),
    "a fixed wait": ("{reorder: {rule: fixed, max_wait: 300ms, late: drop}}", PLAIN),
    "late to the side": (f"{{reorder: {{late: side, start: zero}}, {BELIEVED}}}", FORGETFUL),
    "restarts are not guessed": ("{reorder: {infer_restart: false, start: 5}}", FORGETFUL),
    "small bounds": (
        "{reorder: {max_held: 5, max_jump: 10, max_sources: 3}, merge: {max_queued: 20}}",
        FORGETFUL,
    ),
    "a counter of eight bits": ("{reorder: {seq_bits: 8, max_jump: 60}}", WRAPPED),
    "by time": (f"{{reorder: {{rule: time}}, {BELIEVED}}}", PLAIN),
    "numbers or not": ("{reorder: {without_seq: by_time}}", UNNUMBERED),
    "unsynced are refused": ("{clock: {unsynced: reject, max_error: 10ms}}", SKEWED),
    "coarse stamps": ("{clock: {granularity: 1s}}", COARSE),
    "several servers": ("{clock: {servers: 3, sync_window: 5s}}", SKEWED),
    "short silences": ("{merge: {max_wait: 100ms, idle_after: 300ms, quiet_after: 1s}}", PLAIN),
    "long waits": ("{merge: {max_wait: 5s, miss_target: 0.01%}}", PLAIN),
    "expected sources": ("{merge: {expected_sources: [m0, m9], new_source_allowance: 0s}}", PLAIN),
    "as the thesis": ("{experimental: {reorder: thesis, merge: thesis, clock: thesis}}", SKEWED),
    "as RFC 6298": ("{experimental: {reorder: rfc}}", PLAIN),
    "MP-K-Slack": ("{reorder: {rule: time}, experimental: {reorder: mp}}", PLAIN),
}

QUALITY = "quality: {accuracy: 95%, max_wait: 1s}"
KEY = "key: payload.k"
COUNTED = "aggregate: {n: count()}"
AGGREGATES = (
    "aggregate: {n: count(), s: sum(payload.v), m: avg(payload.v), lo: min(payload.v),"
    " hi: max(payload.v), f: first(payload.v), l: last(payload.v), d: distinct(payload.k)}"
)
SIDES = "sides: {x: {stream: a, key: payload.k}, y: {stream: b, key: payload.k}}"

QUERIES: dict[str, tuple[str, World]] = {
    "tumbling": (f"{{window: tumbling 2s, {KEY}, {AGGREGATES}, finals: true}}", PLAIN),
    "sliding": (f"{{window: sliding 4s every 1s, {AGGREGATES}}}", FORGETFUL),
    "session": (f"{{window: session 500ms, {KEY}, {AGGREGATES}}}", PLAIN),
    "counted": (f"{{window: count 7, {KEY}, {AGGREGATES}}}", PLAIN),
    "early windows": (f"{{window: tumbling 2s, early: 300ms, {AGGREGATES}}}", PLAIN),
    "final windows": (f"{{window: tumbling 2s, answer: final, {AGGREGATES}}}", PLAIN),
    "uncertain windows": (
        "{window: tumbling 2s, uncertainty: bounds, aggregate: {n: count(), s: sum(payload.v)}}",
        SKEWED,
    ),
    "expected windows": (
        "{window: tumbling 2s, uncertainty: expected, aggregate: {n: count(), s: sum(payload.v)}}",
        SKEWED,
    ),
    "windows of a quality": (f"{{window: tumbling 1s, {QUALITY}, {AGGREGATES}}}", PLAIN),
    **{
        f"windows, {uncertainty}": (
            f"{{window: tumbling 2s, uncertainty: {uncertainty}, {COUNTED}}}",
            SKEWED,
        )
        for uncertainty in ("plain", "ignore", "thesis3")
    },
    **{
        f"windows of a quality, {method}": (
            f"{{window: tumbling 1s, {QUALITY}, experimental: {{quality: {method}}}, {COUNTED}}}",
            SOUND,
        )
        for method in ("mp", "aq", "ldop", "prob_slack", "event_driven", "mean_delay")
    },
    "windows before the merge": (
        f"{{window: tumbling 1s, answer: speculate, {QUALITY}, {AGGREGATES}}}",
        PLAIN,
    ),
    "patterns before the merge": (
        '{pattern: "PATTERN SEQ(A a, !B, C c) WITHIN 2 s", answer: speculate}',
        PLAIN,
    ),
    "joins before the merge": (
        f"{{join: interval 300ms, {SIDES}, outer: left, answer: speculate}}",
        TWO,
    ),
    "windows corrected briefly": (
        f"{{window: tumbling 1s, correct_for: 500ms, {AGGREGATES}}}",
        PLAIN,
    ),
    "pairs": (f"{{join: interval 300ms, {SIDES}}}", TWO),
    "pairs, outer": (f"{{join: interval -100ms to 1s, {SIDES}, outer: full, finals: true}}", TWO),
    "joined windows": (f"{{join: tumbling 2s, {SIDES}, outer: left}}", TWO),
    "joined windows that slide": (f"{{join: sliding 2s every 1s, {SIDES}, answer: final}}", TWO),
    "joins of a quality": (f"{{join: interval 300ms, {SIDES}, outer: left, {QUALITY}}}", TWO),
    "patterns of a quality": (
        f'{{pattern: "PATTERN SEQ(A a, !B, C c) WITHIN 2 s", {QUALITY}}}',
        PLAIN,
    ),
    "final patterns": (
        '{pattern: "PATTERN SEQ(A a, !B b) WHERE [k] WITHIN 1 s", answer: final}',
        PLAIN,
    ),
}

FUNCTIONS = """
from inorder.engine import Detector


def value(event):
    found = event.payload.get("v") if isinstance(event.payload, dict) else None
    return found if isinstance(found, int | float) else 0


def rises(last, event):
    return value(event), {"by": value(event) - last} if value(event) > last else None


def sums(total, event):
    return total + value(event), {"sum": total + value(event)}


detectors = {"rises": Detector(rises, 0), "sums": Detector(sums, 0)}
"""
AHEAD = "{detector: rises, key: payload.k, answer: speculate}"
DETECTORS: dict[str, str] = {
    "that runs ahead": f"{{rises: {AHEAD}}}",
    "that is corrected": f"{{rises: {AHEAD.replace('speculate', 'early')}}}",
    "and another share": f"{{rises: {AHEAD[:-1]}, speculate: {{share: 20%}}}},"
    " sums: {detector: sums, answer: speculate, speculate: {share: 60%}}}",
}

PATTERNS: dict[str, str] = {
    "next": "SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 3 s RETURN count(b) AS n, avg(b[].v) AS m",
    "strict": "SEQ(A a, B b) WITHIN 3 s USING strict",
    "partition": "SEQ(A a, B b, B c) WHERE [k] WITHIN 3 s USING partition MATCHES ALL",
    "any": "SEQ(A a, B b, C c) WHERE [k] WITHIN 2 s USING skip_till_any MATCHES ALL LIMIT 20",
    "maximal": "SEQ(A a, B+ b[]) WHERE [k] WITHIN 1 s USING skip_till_any",
    "best": "SEQ(A a, B? b, B c) WHERE [k] WITHIN 2 s MATCHES BEST SKIP PAST LAST",
    "sets": "SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 2 s USING skip_till_any"
    " MATCHES MAXIMAL AS SETS",
    "absences": "SEQ(A a, AND(!D FOR 300 ms, C c)) WHERE [k] WITHIN 2 s",
    "either": "SEQ(A a, OR(C c, !B FOR 1 s), D d) WITHIN 4 s MATCHES ALL",
    "possible": "SEQ(A a, B b) WHERE b.v > a.v WITHIN 1 s UNCERTAIN POSSIBLE",
    "slack": "SEQ(A a, !C, B b) WITHIN 1 s EMIT SLACK",
    "turns": "SEQ(A a, B b){1,3} turn WITHIN 3 s TIES BY KEY RETURN count(turn) AS n",
    "chained": "SEQ(A a, B b) WHERE [k] WITHIN 1 s RETURN b.v AS v INTO AB;"
    "QUERY second PATTERN SEQ(AB x, C c) WITHIN 2 s RETURN x.v AS v",
}


def written(folder: Path, seed: int) -> list[Case]:
    """Writes the files of all cases into the folder and returns the cases."""
    return [
        *_examples(),
        *_of_streams(folder, seed),
        *_of_queries(folder, seed),
        *_of_patterns(folder, seed),
        *_of_detectors(folder, seed),
        *_of_sql(folder, seed),
        *_mapped(folder, seed),
        *_recorded(folder),
    ]


def _examples() -> Iterator[Case]:
    pairs = {
        "absence": "absence",
        "chain": "detector",
        "detector": "detector",
        "join": "join",
        "merge": "merge",
        "plain": "clock",
        "press": "press",
        "reorder": "reorder",
        "reorder_by_time": "reorder_by_time",
        "window": "window",
    }
    for topology, events in pairs.items():
        path = EXAMPLES / f"{topology}.yaml"
        functions = str(EXAMPLES / "detectors.py") if "detectors.py" in path.read_text() else ""
        yield _replayed(f"example {topology}", path, EXAMPLES / f"{events}.jsonl", functions)


def _of_streams(folder: Path, seed: int) -> Iterator[Case]:
    queries = f"counted: {{window: tumbling 1s, {KEY}, aggregate: {{n: count()}}}}"
    for name, (settings, world) in STREAMS.items():
        text = f"streams:\n  default: {settings}\nstages: [reorder+merge]\nqueries:\n  {queries}\n"
        yield _world_case(folder, f"stream, {name}", text, world, seed)


def _of_queries(folder: Path, seed: int) -> Iterator[Case]:
    for name, (query, world) in QUERIES.items():
        streams = ", ".join(f"{stream}: {{}}" for stream in world.streams)
        text = f"streams: {{{streams}}}\nqueries:\n  asked: {query}\n"
        yield _world_case(folder, f"query, {name}", text, world, seed)


def _of_patterns(folder: Path, seed: int) -> Iterator[Case]:
    for name, text in PATTERNS.items():
        first, _, second = text.partition(";")
        queries = {"first": {"pattern": f"PATTERN {first}"}}
        if second:
            queries["second"] = {"pattern": second.removeprefix("QUERY second ")}
        topology = yaml.safe_dump({"streams": {"default": {}}, "queries": queries})
        world = FEW_SKEWED if name == "possible" else PLAIN
        yield _world_case(folder, f"pattern, {name}", topology, world, seed)


def _of_detectors(folder: Path, seed: int) -> Iterator[Case]:
    functions = folder / "functions.py"
    functions.write_text(FUNCTIONS)
    for name, queries in DETECTORS.items():
        text = (
            f"streams: {{default: {{{BELIEVED}}}}}\nfunctions: functions.py\nqueries: {queries}\n"
        )
        case = _world_case(folder, f"detector {name}", text, PLAIN, seed)
        yield replace(case, functions=str(functions))


def _of_sql(folder: Path, seed: int) -> Iterator[Case]:
    """All that have two spellings, as one file each, over one world."""
    cases = [case for group in yaml.safe_load(SPELLINGS.read_text()) for case in group["cases"]]
    events = _lines_file(folder / "sql.jsonl", SPELLED, seed)
    head = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ref_time "
    for case in cases[:: len(cases) // 4]:
        sql = f"{head}{case['sql']})"
        args = ("--sql", sql, "--correct")
        yield Case(f"SQL, {case['name']}", "match", args, events)
    text = ";\n".join(
        f"QUERY q{at} PATTERN {case['query'].partition(' RETURN ')[0].strip()} WITHIN 2 s"
        for at, case in enumerate(cases)
        if "SKIP" not in case["query"]
    )
    yield Case("the language, straight", "match", ("--query", text), events)


def _mapped(folder: Path, seed: int) -> Iterator[Case]:
    args = ("--source", "machine", "--seq", "n", "--ts", "time", "--type", "state")
    telemetry = ("--source", "device", "--seq", "n", "--ts", "time", "--ts-unit", "ms", "--json")
    yield Case("an audit of an example", "audit", telemetry, str(EXAMPLES / "telemetry.csv"))
    path = folder / "mapped.csv"
    lines_in = [line for line in PLAIN.lines(Random(seed)) if "source" in line]
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["machine", "n", "time", "state", "v"])
        for line in lines_in:
            payload = line.get("payload")
            v = payload.get("v") if isinstance(payload, dict) else ""
            ts = line["ts"] // 1_000_000 if isinstance(line["ts"], int) else line["ts"]
            writer.writerow([line["source"], line.get("seq"), ts, line.get("type"), v])
    yield Case("a mapped CSV", "replay", (*args, "--ts-unit", "ms", "--json"), str(path))
    yield Case("an audited CSV", "audit", (*args, "--ts-unit", "ms", "--json"), str(path))


def _recorded(folder: Path) -> Iterator[Case]:
    """Recorded traces, where the folder of data is there."""
    topology = folder / "recorded.yaml"
    topology.write_text(
        "streams: {default: {}}\nstages: [reorder+merge]\nqueries:\n"
        "  counted: {window: tumbling 10s, aggregate: {n: count()}}\n"
        "  spoken: {window: session 5s, aggregate: {n: count()}}\n"
    )
    for name in ("jr_umts", "lorawan_gateways", "usgs_quakes", "soccer_tagging"):
        path = folder / f"{name}.jsonl"
        try:
            rows = getattr(traces, name)()
            with path.open("w") as out:
                for _, row in zip(range(TRACE_ROWS), rows, strict=False):
                    line = {"source": row.source, "seq": row.seq, "ts": row.ts_ns}
                    line |= {"arrival": row.arrival_ns, "type": row.type, "payload": row.payload}
                    out.write(json.dumps(line) + "\n")
        except traces.TraceAbsent as absent:
            print(f"left out: {absent}")
            continue
        yield _replayed(f"recorded, {name}", topology, path)


def _world_case(folder: Path, name: str, topology: str, world: World, seed: int) -> Case:
    stem = "".join(each if each.isalnum() else "_" for each in name)
    path = folder / f"{stem}.yaml"
    path.write_text(topology)
    return _replayed(
        name, path, Path(_lines_file(folder / f"{stem}.jsonl", world, f"{seed} {name}"))
    )


def _lines_file(path: Path, world: World, seed: int | str) -> str:
    lines: list[Line] = world.lines(Random(seed))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def _replayed(name: str, topology: Path, events: Path, functions: str = "") -> Case:
    args = ("--topology", str(topology), "--json")
    return Case(name, "replay", args, str(events), str(topology), functions)
