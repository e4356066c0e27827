"""Laws of the topology file's reference: every key has a description, and a file with all keys
filled in means the same. The schema accepts what the reader accepts.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from topology.config import TopologyError, parse, reference
from topology.config.reading import SECTIONS

FILES: dict[str, str] = {
    "smallest": "streams: {default: {}}",
    "empty sections": "streams: {default: }\nqueries: {}\ntopics:",
    "no queries": "streams: {default: }\nqueries:",
    "no values": """
streams: {default: {}}
queries: {q: {join: interval 2s, sides: {a: {type: A}, b: {type: B}}, values: }}
""",
    "by time": "streams: {a: {reorder: {rule: time, miss_target: 1%}}}",
    "a name with a dot": "streams: {a.b: {reorder: {rule: time}}}",
    "headers": "streams: {a: {headers: {preset: cloudevents, ts_unit: ms, sig: seal}}}",
    "several": "streams: {a: {}, b: {input: raw.b}}\nstages: [reorder+merge, pattern]",
    "queries": """
streams: {pitch: {}, video: {}}
queries:
  speed:
    stream: pitch
    window: sliding 10s every 2s
    key: payload.player
    aggregate: {mean: avg(payload.v), p99: "quantile(payload.v, 0.99)"}
    quality: {accuracy: 99%, max_wait: 2s}
  fixed:
    stream: pitch
    window: count 100
    aggregate: {n: count()}
    quality: {max_wait: 10ms}
  seen:
    join: interval 2s
    sides: {shot: {stream: pitch, type: Shot}, frame: {stream: video}}
    key: payload.ball
    outer: left
    values: {speed: shot.payload.v}
  one_two: {stream: pitch, pattern: "PATTERN SEQ(Pass a, Touch+ b[], Shot c) WITHIN 5 s"}
""",
    "much": """
streams:
  a:
    reorder: {start: zero, infer_restart: true, late: side, max_held_bytes: 64 KiB}
    clock: {unsynced: trust, granularity: 1.5ms, max_skew: 20ppb}
    merge: {expected_sources: [s1, "2"], miss_target: "0.1%"}
delivery: at_least_once
state: redis
redis: redis://me@127.0.0.1:6379/0
topics: {partitions: 4, replication: 1}
""",
}

SCHEMA = reference.schema()
VALIDATOR = Draft202012Validator(SCHEMA)
WRONG = [
    "streams: {a: {colour: red}}",
    "streams: {a: {reorder: {max_wait: 500}}}",
    "streams: {a: {reorder: {max_wait: 5 parsecs}}}",
    "streams: {a: {reorder: {rule: misses}}}",
    "streams: {a: {reorder: {seq_bits: 64}}}",
    "streams: {a: {input: 'a b'}}",
    "streams: {a: {}}\nwatermark: 'yes'",
    "streams: {a: {}}\ntopics: {partitions: 0}",
    "stages: [reorder]",
    "streams: {}",
    "streams:",
    "streams: {a: {}}\nwatermark: 'true'",
    "streams: {a: {}}\nqueries: {q: {window: tumbling 1s, aggregate: {}}}",
    "streams: {a: {}}\nqueries: {q: {detector: mine, reads: []}}",
    "streams: {a: {schema: {subjects: []}}}",
]


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_filled_file_means_the_same(
    text: str,
) -> None:
    document = yaml.safe_load(text)
    whole = reference.fill(document)
    found = parse(text)
    assert parse(whole) == found.model_copy(update={"stages_written": found.stages})
    assert reference.fill(yaml.safe_load(whole)) == whole
    VALIDATOR.validate(document)
    VALIDATOR.validate(yaml.safe_load(whole))


MAPPING_KEYS = {
    *("arrival", "fields", "key_format", "schema"),
    *("ts_unit", "ts_zone", "ts_format", "decimal"),
}
SECTIONS_UNSAID = {("fields",), ("schema",)}


def test_every_default_is_filled_in() -> None:
    """Only keys without a default, and keys without effect under the given rule, stay out."""
    whole = yaml.safe_load(reference.fill({"streams": {"default": {}}}))
    unsaid = {
        ("functions",),
        ("topics", "replication"),
        ("topics", "resend"),
        ("streams", "*", "merge", "new_source_allowance"),
        ("streams", "*", "clock", "granularity"),
        ("streams", "*", "clock", "max_set_back"),
        ("streams", "*", "reorder", "seq_range"),
        ("streams", "*", "reorder", "id_memory"),
        ("streams", "*", "reorder", "max_ids"),
    }
    unsaid |= {("streams", "*", key) for key in MAPPING_KEYS}
    for path, (section, *_) in SECTIONS.items():
        if path[0:1] == ("queries",) or (
            path[:2] == ("streams", "*") and path[2:] in SECTIONS_UNSAID
        ):
            continue
        at: Any = whole
        for part in path:
            at = at["default" if part == "*" else part]
        named = {key for key in section.list_keys() if (*path, key) not in unsaid}
        if path == ("streams", "*", "headers"):
            named = {"preset", "ts_unit"}
        assert at.keys() == named, path


@pytest.mark.parametrize(
    ("stream", "absent"),
    [
        ({"reorder": {"seq_range": "1 to 255"}}, "seq_bits"),
        (
            {
                "fields": {"source": "key", "seq": "key", "ts": "payload.t"},
                "ts_format": "%d.%m",
                "ts_zone": "UTC",
            },
            "ts_unit:",
        ),
    ],
)
def test_excluded_key_is_not_filled_in(stream: dict[str, Any], absent: str) -> None:
    text = reference.fill({"streams": {"a": stream}})
    assert parse(text).streams["a"] == parse({"streams": {"a": stream}}).streams["a"]
    assert absent not in text.replace("headers:\n      preset: plain\n      ts_unit: ns", "")


def test_fill_refuses_a_bad_file() -> None:
    with pytest.raises(TopologyError, match=r"streams\.a\.colour"):
        reference.fill({"streams": {"a": {"colour": "red"}}})


def test_every_key_has_a_description() -> None:
    for section in {each for sections in SECTIONS.values() for each in sections}:
        words = reference.descriptions_of(section)
        assert words.keys() >= section.model_fields.keys(), section
        assert all(word.endswith((".", ").")) for word in words.values())


# -- the schema ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", WRONG)
def test_schema_refuses_bad_files(text: str) -> None:
    with pytest.raises(TopologyError):
        parse(text)
    assert not VALIDATOR.is_valid(yaml.safe_load(text))


def test_schema_accepts_its_defaults() -> None:
    entries = [
        entry
        for described in (SCHEMA, *SCHEMA["$defs"].values())
        for entry in described["properties"].values()
    ]
    assert len(entries) > 100
    for entry in entries:
        assert entry["description"]
        if "default" in entry and not isinstance(entry["default"], dict):
            VALIDATOR.evolve(schema=entry | {"$defs": SCHEMA["$defs"]}).validate(entry["default"])
