"""Examples: the manifest, the image and the package of a cluster agree with the command line. End
to end: spark-submit.

The command that gets the manifest's arguments also parses them here. The package is all that
spark-submit needs, and its job writes the same rows as the job without it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from pyspark.sql import SparkSession

import cli.spark.jars
from agents.kafka.declared import list_needed_topics
from agents.kafka.security import PLAINTEXT
from agents.kafka.topics import ensure_topics
from cli.spark.command import command
from infra.spark import package
from spark_analytics.jobs.outputs import read
from tests import ROOT
from tests.end_to_end.records import new_producer
from tests.kit.programs import python
from tests.services import SharedKafka
from tests.spark_analytics.conftest import SETTINGS
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import MS, ordered_records
from topology.base.event import Event
from topology.config import parse

pytestmark = [*SPARK]

FOLDER = ROOT / "infra" / "spark"
MANIFEST = FOLDER / "application.yaml"
EVENTS = 300
SUBMIT_TIMEOUT_S = 200.0
TOPOLOGY = """\
streams: {{default: {{input: raw-{name}, output: ordered-{name}}}}}
topics: {{partitions: 1, replication: 1, clock: clock-{name}}}
"""


def parse_arguments(arguments: list[str]) -> Any:
    """Return the options that `inorder spark` parses from the arguments, or raise its refusal."""
    from cli.spark.job import Asked

    name, *rest = arguments
    subcommand = command.get_command(command.make_context("spark", arguments), name)
    assert subcommand is not None, f"there is no `inorder spark {name}`"
    options = dict(subcommand.make_context(name, rest).params)
    del options["topology_path"], options["kafka_path"]
    topology = parse("streams: {default: {}}")
    return Asked(topology=topology, security=PLAINTEXT, **options)


def test_manifest_arguments_are_valid(spark: SparkSession) -> None:
    assert [*FOLDER.glob("*.yaml")] == [MANIFEST]
    spec = yaml.safe_load(MANIFEST.read_text())["spec"]
    wanted = parse_arguments(spec["arguments"])
    assert wanted.interval is not None  # the job runs continuously, so that restarts make sense
    mounts = [mount["mountPath"] for mount in spec["executor"]["volumeMounts"]]
    assert wanted.out in mounts
    assert mounts == [mount["mountPath"] for mount in spec["driver"]["volumeMounts"]]
    names = [volume["name"] for volume in spec["volumes"]]
    assert names == [mount["name"] for mount in spec["driver"]["volumeMounts"]]


def test_image_agrees_with_manifest() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    spec = yaml.safe_load(MANIFEST.read_text())["spec"]
    assert spec["sparkVersion"] == cli.spark.jars.VERSION
    assert f"ARG SPARK=apache/spark:{cli.spark.jars.VERSION}-" in dockerfile
    assert spec["mainApplicationFile"] == f"local:///opt/inorder/{package.APPLICATION}"
    assert f"cli/spark/application.py {package.APPLICATION}" in dockerfile
    copied = re.findall(r"^COPY (\w+) lib/\1$", dockerfile, re.MULTILINE)
    assert copied == list(package.ROOMS)
    # A backfill and a live job pass rows to our code as pandas and pyarrow objects.
    assert "--require-hashes -r infra/locks/spark.txt" in dockerfile
    locks = set(re.findall(r"infra/locks/\w+\.txt", dockerfile))
    assert locks == {"infra/locks/run.txt", "infra/locks/spark.txt"}
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{lock}" for lock in locks} <= set(let_in)


def test_modules_load_from_the_package(tmp_path: Path) -> None:
    package.build(tmp_path)
    modules = (
        "cli.main, cli.spark.command, cli.spark.job, cli.spark.jars, spark_analytics.jobs.running"
    )
    program = f"import {modules}; print(cli.spark.job.__file__, cli.spark.jars.__file__)"
    env = {"PYTHONPATH": str(tmp_path / package.ZIPPED)}
    done = python("-c", program, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert all(place.startswith(str(tmp_path)) for place in done.stdout.split())
    assert len(list((tmp_path / "jars").iterdir())) >= 4


@pytest.mark.long
@pytest.mark.kafka
def test_spark_submit_runs_a_job(spark: SparkSession, kafka: SharedKafka, tmp_path: Path) -> None:
    """Spark runs in local mode, with only the package and its Python."""
    name = uuid.uuid4().hex[:8]
    file = tmp_path / "topology.yaml"
    file.write_text(TOPOLOGY.format(name=name))
    ensure_topics(list_needed_topics(parse(file.read_text())), kafka.bootstrap, 1)
    producer = new_producer(kafka.bootstrap)
    events = [Event("default", "a", 0, seq, seq * MS, seq * MS) for seq in range(EVENTS)]
    for record in ordered_records(events):
        topic = f"ordered-{name}"
        producer.produce(topic, record.value, record.key, headers=list(record.headers))
    assert producer.flush(SUBMIT_TIMEOUT_S) == 0

    folder = tmp_path / "package"
    files = package.build(folder)
    # Neither Maven nor our own jars can be reached, so --jars must suffice.
    nowhere = {"INORDER_CACHE": "/nonexistent", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        submission(folder, [str(f) for f in files if f.suffix == ".jar"], file, kafka, tmp_path),
        cwd=tmp_path,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = read(spark, str(tmp_path / "out" / "rates-batch"), "windows-default").collect()
    assert sorted((row.start_time.timestamp(), row.source, row.n) for row in rows) == [
        (0.0, "a", 100),
        (0.1, "a", 100),
        (0.2, "a", 100),
    ]


def submission(
    folder: Path, jars: list[str], topology: Path, kafka: SharedKafka, out: Path
) -> list[str]:
    conf = {name: value for name, value in SETTINGS.items() if name != "spark.master"}
    return [
        *(str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"),
        *(word for pair in conf.items() for word in ("--conf", "=".join(pair))),
        *("--jars", ",".join(jars), "--py-files", str(folder / package.ZIPPED)),
        *(str(folder / package.APPLICATION), "run", "rates", "--batch"),
        *("--topology", str(topology), "--brokers", kafka.bootstrap, "--out", str(out / "out")),
        *("--window", "tumbling 100ms", "--table", "windows-default"),
    ]
