"""One small Spark session for each pytest-xdist worker, started on first use."""

from __future__ import annotations

from collections.abc import Iterator
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any

import pytest

import cli.spark.jars
from cli.local import classes
from tests.services import require
from tests.tiers.selection import is_first_tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT_S = 30.0
SETTINGS = {
    "spark.master": "local[2]",
    # Tables of lakes and plans stay for the next tests. A hundred tests fill half of this.
    "spark.driver.memory": "1g",
    # The first compiler suffices. Its default code cache holds half of what a run compiles, and the
    # rest would be compiled again. Java starts chmod as a process for each file.
    "spark.driver.extraJavaOptions": " ".join(
        (
            "-XX:TieredStopAtLevel=1",
            "-XX:ReservedCodeCacheSize=256m",
            "-XX:+UseSerialGC",
            "-Djdk.lang.Process.launchMechanism=VFORK",
            *classes.read_options(cli.spark.jars.folder()),
        )
    ),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # A listing of files is a job of this many tasks; the default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Compiling costs more than these few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # RocksDB takes a fifth longer for states of a few rows; `test_running` covers it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    # The default one starts chmod and stat as processes, some for each file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": ".".join(
        (
            "org.apache.spark.sql.execution.streaming",
            *(["checkpointing"] if cli.spark.jars.release() != "4.0" else []),
            "FileSystemBasedCheckpointFileManager",
        )
    ),
}


LOCAL_FILES = """
import org.apache.hadoop.fs.*;
public class QuickFiles extends LocalFileSystem {
    public QuickFiles() { super(new Raw()); setWriteChecksum(false); }
    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, org.apache.hadoop.fs.permission.FsPermission mode) {}
    }
}
"""
"""Hadoop's local files without `chmod`, a process for each, and without files of checksums."""


@pytest.fixture(scope="session")
def spark(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    require(cli.spark.jars.missing())
    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import FORMATS, settings

    folder = tmp_path_factory.mktemp("spark")
    own = {
        "spark.databricks.delta.snapshotPartitions": "1",  # for logs of a few lines
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    # The first tier has no test of a lake, and its set-up does not fetch their jars.
    lakes = () if is_first_tier(pytestconfig) else FORMATS
    jars = [
        *cli.spark.jars.fetch_connector_jars(),
        *(cli.spark.jars.postgres_jars() if lakes else ()),
    ]
    jars += [jar for kind in lakes for jar in cli.spark.jars.fetch_lake_jars(kind)]
    session = new_session("inorder tests", jars, {**SETTINGS, **settings(*lakes), **own})
    gateway: Any = session.sparkContext._gateway
    java = gateway.jvm
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(LOCAL_FILES)
    conf = java.org.apache.hadoop.conf.Configuration()
    conf.setClassLoader(compiler.getClassLoader())
    conf.set("fs.file.impl", "QuickFiles")
    java.org.apache.hadoop.fs.FileSystem.closeAll()
    java.org.apache.hadoop.fs.FileSystem.get(conf)  # cached for all later users
    yield session
    session.stop()
    # The Java process ends when its input closes. The test run waits for that, but does not fail.
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(STOP_TIMEOUT_S)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
