"""Set up an application for a test: a topology file with its own names, and its topics."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from agents.user_functions import make_loader
from topology.config import Topology, parse

SPLIT = "reorder, merge"
FUSED = "reorder+merge"
ONE_TASK: Final[dict[str, Any]] = {"stages": FUSED, "partitions": 3, "stream": "keyed_by: source"}
"""Settings of a task that reads all partitions."""

TEMPLATE = """\
streams:
  default: {{input: {raw}, output: ordered-{name}, clock: {{{clock}}}{stream}}}
{others}stages: [{stages}]
application: app-{name}
topics:
  partitions: {partitions}
  replication: {replication}
  sequenced: sequenced-{name}
  gaps: gaps-{name}
  late: late-{name}
  dead: dead-{name}
  clock: {clocks}
  windows: windows-{name}
  matches: matches-{name}
  joins: joins-{name}
{topics}state: {state}
delivery: {delivery}
{more}"""


@dataclass(frozen=True)
class Setting:
    """An application; `path` is the topology file, and the other names are those of its topics."""

    bootstrap: str
    path: Path
    topology: Topology

    @property
    def folder(self) -> Path:
        """Return the folder with the file and with what its workers leave."""
        return self.path.parent

    @property
    def raw(self) -> str:
        return self.topology.streams["default"].input

    @property
    def ordered(self) -> str:
        return self.topology.streams["default"].output

    @property
    def fused(self) -> bool:
        return self.topology.fused

    @property
    def stages(self) -> list[str]:
        return [stage.name for stage in self.topology.stages]

    @property
    def tasks(self) -> int:
        """Return how many workers can have work in the first stage."""
        is_whole = self.fused and self.topology.streams["default"].keyed_by == "source"
        return 1 if is_whole else self.topology.topics.partitions

    def decided_ns(self, stream: str, watermark_ns: int, complete_ns: int) -> int:
        """Return the time up to which a watermark record makes results final."""
        return min(complete_ns, watermark_ns - self.topology.new_source_allowance_ns(stream))

    def key(self, source: str) -> bytes:
        """Return the record key that a producer of this application has to write."""
        is_alone = self.topology.streams["default"].keyed_by == "stream"
        return b"default" if is_alone else source.encode()


def settle(
    bootstrap: str,
    folder: Path,
    *,
    stages: str = SPLIT,
    raw: str | None = None,
    clocks: str | None = None,
    partitions: int = 2,
    replication: int = 1,
    state: str = "rocksdb",
    delivery: str = "exactly_once",
    clock: str = "unsynced: trust",
    stream: str = "",
    others: Sequence[str] | Mapping[str, str] = (),
    topics: str = "",
    more: str = "",
    make: bool = True,
    functions: str = "",
) -> Setting:
    """Write the file, and make the topics.

    `functions` is the Python text of a user's functions. `raw` and `clocks` are inputs shared with
    another application. `clock` and `topics` go into those sections, `stream` into the stream's
    braces, and `more` to the end of the file. `others` are streams like the default one; a mapping
    has the contents of their braces.
    """
    name = uuid.uuid4().hex[:8]
    raw = raw or f"raw-{name}"
    like = f"input: {raw}, output: ordered-{name}, clock: {{{clock}}}"
    streams = others if isinstance(others, Mapping) else dict.fromkeys(others, "")
    if "reorder+merge" in stages and partitions > 1 and "keyed_by" not in stream:
        # `key` writes such keys, and each partition is a task.
        like += ", keyed_by: stream"
        stream = ", ".join(filter(None, ["keyed_by: stream", stream]))
    text = TEMPLATE.format(
        name=name,
        raw=raw,
        others="".join(
            f"  {other}: {{{like}{', ' + own if own else ''}}}\n" for other, own in streams.items()
        ),
        stages=stages,
        partitions=partitions,
        replication=replication,
        state=state,
        delivery=delivery,
        clock=clock,
        clocks=clocks or f"clock-{name}",
        stream=f", {stream}" if stream else "",
        topics=f"  {topics}\n" if topics else "",
        more=more,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"topology-{name}.yaml"
    if functions:
        (folder / "functions.py").write_text(functions)
        text += "functions: functions.py\n"
    path.write_text(text)
    setting = Setting(bootstrap, path, parse(text, make_loader(folder)))
    if make:
        ensure_topics(list_needed_topics(setting.topology), bootstrap, replication)
    return setting


def fused(bootstrap: str, folder: Path, **more: Any) -> Setting:
    """Run `settle` with one stage over one partition."""
    return settle(bootstrap, folder, **{"stages": FUSED, "partitions": 1, **more})


@dataclass(frozen=True)
class Settles:
    """A maker of applications: `settle` and `fused` on these brokers, in this folder."""

    bootstrap: str
    folder: Path

    def __call__(self, **more: Any) -> Setting:
        return settle(self.bootstrap, self.folder, **more)

    def fused(self, **more: Any) -> Setting:
        return fused(self.bootstrap, self.folder, **more)
