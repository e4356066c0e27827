"""End to end: both wheels work in empty environments, away from the checkout.

INORDER_WHEELS names a folder with wheels that were built before (`infra/compiled_wheels.sh`). The
tests then use those, with the compiled wheel for this Python if there is one.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.local.process import Process
from inorder.__main__ import ROOMS
from tests import ROOT
from tests.infra.environment import RUN_S, Environment

CLIENT = {"inorder"}
ENGINE = ROOMS - CLIENT
BUILD_S = 200.0
READY = re.compile(r"ready: embedded broker at (\S+), worker at")
GIVEN = os.environ.get("INORDER_WHEELS", "")
LIBRARY = "inorder_core__mypyc"
HOW_IT_RUNS = "from topology.base import event; print(event.__file__.endswith('.py'))"
EVERY_COMMAND = """\
from cli.main import COMMANDS, Commands
for name in COMMANDS:
    try:
        assert Commands().get_command(None, name)
    except ModuleNotFoundError as error:
        assert error.name in ("pyspark", "psycopg", "redis", "pyarrow"), error
from cli.demo.recording import record
assert record()
"""
WHAT_IS_HERE = """\
from importlib.util import find_spec
kafka = "aiohttp aiokafka confluent_kafka cramjam faust mode prometheus_client rocksdict"
print([name for name in kafka.split() if find_spec(name)])
"""

OTHERS = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "somebody-elses"
version = "1.0"
[tool.setuptools]
packages = ["agents"]
"""

PUBLISH = """\
import agents, sys
from confluent_kafka import Producer
from inorder import HeaderContract, SequencedProducer, SyncSettings

assert agents.OWNER == "somebody else"
host = Producer({"bootstrap.servers": "embedded", "test.mock.num.brokers": 1, "log_level": 3})
(broker,) = host.list_topics(timeout=10).brokers.values()
host.list_topics("events.raw", timeout=10)
address = f"{broker.host}:{broker.port}"
with SequencedProducer(address, "events.raw", "press-7", headers=HeaderContract()) as producer:
    numbers = [producer.send(b"{}") for _ in range(3)]
    producer.flush()
assert not {"topology", "pydantic", "faust", "msgspec"} & set(sys.modules)
print(numbers)
"""


TYPED = """\
from inorder import Topology
from inorder.engine import Aggregate, ClockConfig, PatternQuery, RawEvent, Record, StreamConfig
from inorder.engine import Window, WindowQuery, pattern, replay
from inorder.testing import OrderedEvent, TopologyDriver

topology = Topology(
    streams={"default": StreamConfig(clock=ClockConfig(unsynced="trust"))},
    queries={
        "load": WindowQuery(window=Window("tumbling", 10**9), aggregate={"n": Aggregate("count")}),
        "jam": PatternQuery(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s")),
    },
)
records: list[Record] = list(replay(topology, [RawEvent(source="s", seq=0)]))
ordered: list[OrderedEvent] = TopologyDriver(topology).read(OrderedEvent)
error_ns: int = topology.streams["default"].clock.max_error_ns
StreamConfig(clock=3)  # type: ignore[arg-type]
topology.nothing  # type: ignore[attr-defined]
"""
"""Its `ignore` comments are errors if the types are Any, because they are unused then."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels by the name of their distribution."""
    folder = Path(GIVEN)
    if not GIVEN:
        folder = tmp_path_factory.mktemp("wheels")
        build = [str(ROOT / "infra" / "wheels.sh"), sys.executable, str(folder)]
        subprocess.run(build, check=True, timeout=BUILD_S)
    tag = "cp{}{}".format(*sys.version_info)
    fitting = [wheel for wheel in folder.glob("*.whl") if wheel.name.split("-")[2] in ("py3", tag)]
    fitting.sort(key=lambda wheel: wheel.name.split("-")[2] == tag)
    return {wheel.name.split("-")[0]: wheel.absolute() for wheel in fitting}


def is_compiled(wheel: Path) -> bool:
    return not wheel.stem.endswith("-none-any")


def test_wheels_contain_their_packages(wheels: dict[str, Path]) -> None:
    held = {}
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as file:
            tops = {entry.partition("/")[0] for entry in file.namelist()}
            held[name] = {top for top in tops if not top.endswith(".dist-info")}
    libraries = {top for top in held["inorder_engine"] if top.startswith(LIBRARY)}
    assert held == {"inorder": CLIENT, "inorder_engine": ENGINE | libraries}
    assert bool(libraries) == is_compiled(wheels["inorder_engine"])


def test_source_archives_are_complete(wheels: dict[str, Path]) -> None:
    """Archives contain all that a build needs: sources of compiled modules, and the grammars."""
    held = {}
    for name, wheel in wheels.items():
        (archive,) = wheel.parent.glob(f"{name}-*.tar.gz")
        with tarfile.open(archive) as file:
            held[name] = {entry.partition("/")[2] for entry in file.getnames()}
    assert {"pyproject.toml", "__init__.py", "sync/__init__.py"} <= held["inorder"]
    recipe = runpy.run_path(str(ROOT / "setup.py"), run_name="recipe")
    sources = [f"codec/native/{name}.pyx" for name in recipe["CODEC"]]
    grammars = [str(file.relative_to(ROOT)) for file in ROOT.glob("topology/**/*.lark")]
    core = {name for name in recipe["hot_modules"]() if not name.startswith(recipe["PUBLISHED"])}
    typed = {str(file.relative_to(ROOT)) for file in (ROOT / "inorder").rglob("*.py")}
    needed = {"setup.py", *core, *sources, *grammars, *typed}
    assert needed - held["inorder_engine"] == set()


def test_client_works_beside_other_agents(wheels: dict[str, Path], tmp_path: Path) -> None:
    there = Environment(tmp_path / "client")
    there.install(f"{wheels['inorder']}[kafka]", foreign_distribution(tmp_path))
    done = there.run("python", "-c", PUBLISH)
    assert done.stdout == "[0, 1, 2]\n", done.stderr
    missing = there.run("python", "-c", "from inorder import Topology")
    assert missing.returncode == 1
    assert "pip install inorder-engine" in missing.stderr


def foreign_distribution(folder: Path) -> Path:
    """Create another project's distribution with a package named `agents`."""
    others = folder / "others"
    (others / "agents").mkdir(parents=True)
    (others / "pyproject.toml").write_text(OTHERS)
    (others / "agents" / "__init__.py").write_text('OWNER = "somebody else"\n')
    (others / "agents" / "run.py").touch()
    return others


@pytest.fixture(scope="module")
def engine(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    there = Environment(tmp_path_factory.mktemp("engine") / "there")
    there.install(wheels["inorder"], f"{wheels['inorder_engine']}[kafka]")
    return there


@pytest.mark.slow
def test_engine_runs_its_commands(
    engine: Environment, wheels: dict[str, Path], tmp_path: Path
) -> None:
    done = engine.run("python", "-P", "-c", EVERY_COMMAND)
    assert done.returncode == 0, done.stderr
    done = engine.run("python", "-P", "-c", HOW_IT_RUNS)
    assert done.stdout == f"{not is_compiled(wheels['inorder_engine'])}\n", done.stderr
    topology = tmp_path / "t.yaml"
    pattern = 'pair: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}'
    topology.write_text(f"streams: {{default: {{}}}}\nqueries:\n  {pattern}\n")
    events = str(tmp_path / "events.jsonl")
    rows = '{"source": "s", "seq": %d, "ts": %d, "type": "%s"}\n'
    Path(events).write_text(rows % (0, 1, "A") + rows % (1, 2, "B"))
    replay = ("replay", "--topology", str(topology), "--show", "event,match", events)
    done = engine.run("inorder", *replay)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"kind":"match"') == 1
    with run_dev_broker(engine, tmp_path) as brokers:
        writing = ("produce", "--brokers", brokers, "--topic", "events.raw", events)
        written = engine.run("inorder", *writing)
        assert written.returncode == 0, written.stderr
        reading = ("read", "--brokers", brokers, "--topic", "events.ordered", "--follow")
        ordered = engine.run("inorder", *reading, "--count", "2")
        assert ordered.stdout.count('"kind":"event"') == 2, ordered.stdout + ordered.stderr


@contextmanager
def run_dev_broker(there: Environment, folder: Path) -> Iterator[str]:
    """Run the installed `inorder dev`, and yield its broker's address."""
    command = [str(there.folder / "bin" / "inorder"), "dev"]
    dev = Process("dev", command, folder, {"PYTHONPATH": ""})
    dev.start()
    try:
        dev.wait_until(lambda: READY.search(dev.log.read_text()) is not None, RUN_S)
        found = READY.search(dev.log.read_text())
        assert found is not None
        yield found[1]
    finally:
        assert dev.stop() == 0, dev.tail()


@pytest.mark.slow
def test_engine_runs_without_kafka(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Commands that need Kafka name the missing extra. Another project's package named `agents` is
    refused.
    """
    there = Environment(tmp_path / "there")
    there.install(wheels["inorder"], wheels["inorder_engine"])
    found = there.run("python", "-P", "-c", WHAT_IS_HERE)
    assert found.stdout == "[]\n", found.stderr
    topology, events = (str(ROOT / "docs" / "examples" / f"press.{n}") for n in ("yaml", "jsonl"))
    done = there.run("inorder", "replay", "--topology", topology, events)
    assert done.returncode == 0, done.stderr
    refused = there.run("inorder", "worker", "--topology", topology)
    assert (refused.returncode, refused.stdout) == (2, "")
    says = "Error: aiokafka is not installed; pip install 'inorder-engine[kafka]'\n"
    assert refused.stderr == says
    missing = there.run("python", "-P", "-c", "from inorder import SequencedProducer")
    says = ": confluent_kafka is not installed; pip install 'inorder[kafka]'"
    assert missing.stderr.splitlines()[-1].endswith(says)
    there.install("--no-deps", foreign_distribution(tmp_path))
    done = there.run("inorder", "--version")
    assert (done.returncode, done.stdout) == (2, "")
    assert "agents also has files of somebody_elses;" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_installed_demo_runs(engine: Environment) -> None:
    demo = engine.run("inorder", "demo", "--speed", "20")
    assert demo.returncode == 0, demo.stdout + demo.stderr


@pytest.mark.slow
def test_imported_names_have_types(engine: Environment, tmp_path: Path) -> None:
    user = tmp_path / "typed.py"
    user.write_text(TYPED)
    python = engine.folder / "bin" / "python"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python))
    cache = ("--cache-dir", str(tmp_path / "mypy"))
    command = [*mypy, *cache, str(user)]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=RUN_S, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
