"""Cases of `make answers`: the examples, then each operator, rule and mode on random worlds."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from string import Template

import yaml

from benchmarks import traces
from tests.answers.worlds import Line, World

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SPELLINGS = ROOT / "tests" / "topology" / "queries" / "pattern" / "spellings.yaml"

TRACE_ROWS = 1_500
"""Number of rows used from each recorded trace."""


@dataclass(frozen=True)
class Case:
    """A run of `inorder COMMAND ARGS EVENTS`.

    If `topology` is a path, the run is also made in pieces, each from the snapshot of the previous
    one. `functions` is the path of the detectors' file that the topology names.
    """

    name: str
    command: str
    args: tuple[str, ...]
    events: str
    topology: str = ""
    functions: str = ""

    def answered(self, lines: Sequence[str]) -> bool:
        """Return whether the lines are those of a completed run with a result of each query."""
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
WORLDS = {
    "plain": World(),
    "sound": World(bad=0),
    "larger": World(count=1_200, sources=12),
    "without arrivals": World(has_arrivals=False),
    "skewed": World(skew_ms=400),
    "two": World(streams=("a", "b"), sources=6),
    "forgetful": World(restarts=0.01, lost=0.05, pauses=0.05),
    "wrapped": World(wraps_at=256, count=1_200, sources=2),
    "unnumbered": World(unnumbered=2),
    "coarse": World(coarse_ms=1_000),
    "in order": World(
        count=2_000, step_ms=4, delay_ms=2, late=0, lost=0, copied=0, bad=0, control=0, pauses=0
    ),
    "few skewed": World(count=120, skew_ms=400),
    "learned": World(count=2_500, sources=3, step_ms=20, late=0.3, late_ms=200, pauses=0),
}
PLAIN = WORLDS["plain"]
SPELLED = World(values=(7, 8, 9, 10, 11, 12))
"""A world with the values in the rows of the spellings."""

KEY = "key: payload.k"
WORDS = {
    "TRUST": BELIEVED,
    "QUEUE": "merge: {max_queued: 20}",
    "ABSENT": '"PATTERN SEQ(A a, !B, C c) WITHIN 2 s"',
    "QUALITY": "quality: {accuracy: 95%, max_wait: 1s}",
    "KEY": KEY,
    "N": "aggregate: {n: count()}",
    "NS": "aggregate: {n: count(), s: sum(payload.v)}",
    "ALL": (
        "aggregate: {n: count(), s: sum(payload.v), m: avg(payload.v), lo: min(payload.v),"
        " hi: max(payload.v), f: first(payload.v), l: last(payload.v), d: distinct(payload.k)}"
    ),
    "SIDES": "sides: {x: {stream: a, key: payload.k}, y: {stream: b, key: payload.k}}",
}


def _table(text: str) -> dict[str, tuple[str, World]]:
    """Return the settings and the world of each row: name | world | settings."""
    rows = [line.split(" | ") for line in Template(text).substitute(WORDS).strip().splitlines()]
    return {name.strip(): (settings, WORLDS[world.strip()]) for name, world, settings in rows}


STREAMS = _table("""
defaults                        | plain            | {}
defaults, more sources          | larger           | {}
defaults, clocks that are wrong | skewed           | {}
defaults, restarts              | forgetful        | {}
defaults, without arrivals      | without arrivals | {}
in order                        | in order         | {}
waits that are learned          | learned    | {reorder: {max_wait: 5s, miss_target: 1%}}
a fixed wait                    | plain      | {reorder: {rule: fixed, max_wait: 300ms, late: drop}}
late to the side                | forgetful  | {reorder: {late: side, start: zero}, $TRUST}
restarts are not guessed        | forgetful  | {reorder: {infer_restart: false, start: 5}}
small bounds | forgetful | {reorder: {max_held: 5, max_jump: 10, max_sources: 3}, $QUEUE}
a counter of eight bits         | wrapped    | {reorder: {seq_bits: 8, max_jump: 60}}
by time                         | plain      | {reorder: {rule: time}, $TRUST}
numbers or not                  | unnumbered | {reorder: {without_seq: by_time}}
unsynced are refused            | skewed     | {clock: {unsynced: reject, max_error: 10ms}}
coarse stamps                   | coarse     | {clock: {granularity: 1s}}
several servers                 | skewed     | {clock: {servers: 3, sync_window: 5s}}
short silences | plain | {merge: {max_wait: 100ms, idle_after: 300ms, quiet_after: 1s}}
long waits                      | plain      | {merge: {max_wait: 5s, miss_target: 0.01%}}
expected sources | plain | {merge: {expected_sources: [m0, m9], new_source_allowance: 0s}}
""")

QUERIES = _table("""
tumbling             | plain     | {window: tumbling 2s, $KEY, $ALL, finals: true}
sliding              | forgetful | {window: sliding 4s every 1s, $ALL}
session              | plain     | {window: session 500ms, $KEY, $ALL}
counted              | plain     | {window: count 7, $KEY, $ALL}
early windows        | plain     | {window: tumbling 2s, early: 300ms, $ALL}
final windows        | plain     | {window: tumbling 2s, answer: final, $ALL}
uncertain windows    | skewed    | {window: tumbling 2s, uncertainty: bounds, $NS}
expected windows     | skewed    | {window: tumbling 2s, uncertainty: expected, $NS}
windows of a quality | plain     | {window: tumbling 1s, $QUALITY, $ALL}
windows, plain       | skewed    | {window: tumbling 2s, uncertainty: plain, $N}
windows, ignore      | skewed    | {window: tumbling 2s, uncertainty: ignore, $N}
windows, thesis3     | skewed    | {window: tumbling 2s, uncertainty: thesis3, $N}
windows before the merge  | plain | {window: tumbling 1s, answer: speculate, $QUALITY, $ALL}
patterns before the merge | plain | {pattern: $ABSENT, answer: speculate}
joins before the merge    | two   | {join: interval 300ms, $SIDES, outer: left, answer: speculate}
windows corrected briefly | plain | {window: tumbling 1s, correct_for: 500ms, $ALL}
pairs                     | two   | {join: interval 300ms, $SIDES}
pairs, outer              | two   | {join: interval -100ms to 1s, $SIDES, outer: full, finals: true}
joined windows            | two   | {join: tumbling 2s, $SIDES, outer: left}
joined windows that slide | two   | {join: sliding 2s every 1s, $SIDES, answer: final}
joins of a quality        | two   | {join: interval 300ms, $SIDES, outer: left, $QUALITY}
patterns of a quality | plain | {pattern: $ABSENT, $QUALITY}
final patterns | plain | {pattern: "PATTERN SEQ(A a, !B b) WHERE [k] WITHIN 1 s", answer: final}
""")

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
    """Write the files of all cases into the folder, and return the cases."""
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
    others = {"chain": "detector", "plain": "clock"}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        events = EXAMPLES / f"{others.get(path.stem, path.stem)}.jsonl"
        if events.exists():
            functions = str(EXAMPLES / "detectors.py") if "detectors.py" in path.read_text() else ""
            yield _replayed(f"example {path.stem}", path, events, functions)


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
        world = WORLDS["few skewed"] if name == "possible" else PLAIN
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
    """Yield some queries in SQL, one case each, and a case with all queries in our language."""
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
    """Yield cases of recorded traces, if the data folder exists."""
    topology = folder / "recorded.yaml"
    topology.write_text(
        "streams: {default: {}}\nstages: [reorder+merge]\nqueries:\n"
        "  counted: {window: tumbling 10s, aggregate: {n: count()}}\n"
        "  spoken: {window: session 5s, aggregate: {n: count()}}\n"
    )
    for name in ("jr_umts", "lorawan_gateways", "usgs_quakes", "soccer_tagging"):
        path = folder / f"{name}.jsonl"
        try:
            rows = getattr(traces, f"read_{name}")()
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
