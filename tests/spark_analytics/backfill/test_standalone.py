"""End to end: a backfill on a master outside this process. The executors get our code as a zip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyspark
import pytest

from cli.local.ports import free_ports
from tests.spark_analytics.backfill import streams
from tests.spark_analytics.backfill.outputs import assert_replayed, backfill_apart
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

HOME = Path(pyspark.__file__).parent
STOP_TIMEOUT_S = 30.0
LOCAL = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Start a master with one worker, both on loopback."""
    (port,), log = free_ports(1), tmp_path / "master.log"
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    of_master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    of_worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g"]
    of_worker += ["--work-dir", str(tmp_path / "work")]
    started = []
    try:
        for words in (of_master, [*of_worker, "--webui-port", "0", url]):
            with log.open("ab") as out:
                command = [str(HOME / "bin" / "spark-class"), *words]
                environment = {**os.environ, **LOCAL, "SPARK_MASTER_WEBUI_PORT": "0"}
                started.append(
                    subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=tmp_path)
                )
            wait_until(lambda: "Starting Spark master" in log.read_text(), url, log.read_text)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def test_remote_executors_match_replay(master: str, tmp_path: Path) -> None:
    rng = Random(21)
    (tmp_path / "t.yaml").write_text(streams.topology(rng))
    events = streams.recording(rng, tmp_path / "events.jsonl", 400)
    own = ["spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
    own += ["spark.executor.memory=512m"]
    conf = [word for each in own for word in ("--conf", each)]
    backfill_apart(tmp_path, events, "--master", master, *conf, env=LOCAL)
    assert_replayed(tmp_path, events)
    assert list((tmp_path / "work").rglob("inorder.zip"))
