"""End to end: Spark reads from brokers that require TLS or SASL."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agents.kafka.security import read_security
from cli.spark.kafka import java_settings
from cli.topology_file import Refused
from spark_analytics.jobs.outputs import read
from tests.certificates import OPENSSL_TIMEOUT_S
from tests.cli.invoking import inorder
from tests.end_to_end.setting import fused
from tests.end_to_end.test_security import LISTENERS, SECRET, Secured, secured
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import BEGIN_NS
from tests.spark_analytics.topics import words, write_ordered
from topology.base.event import Event

__all__ = ["secured"]

pytestmark = [*SPARK, pytest.mark.kafka]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("listener", sorted(LISTENERS.keys() - {"BEARER"}))
def test_spark_reads_from_each_listener(
    spark: SparkSession, secured: Secured, listener: str, tmp_path: Path
) -> None:
    kafka = tmp_path / "kafka.properties"
    kafka.write_text(secured.settings(listener))
    setting = fused(secured.broker.bootstrap, tmp_path)
    event = Event("default", "s", 0, 1, BEGIN_NS, BEGIN_NS)
    event.late = "gap"
    write_ordered(setting, [event])
    there = secured.broker.address(listener)
    asked = words(setting, tmp_path, "rates", "--batch", "--table", "late")
    asked[asked.index("--brokers") + 1] = there
    asked += ["--kafka", str(kafka)]
    secret = {"INORDER_SASL_PASSWORD": SECRET} if listener == "SCRAM" else {}
    answer = inorder(*asked, env=secret).well()
    assert SECRET not in answer.err + answer.out
    (row,) = read(spark, str(tmp_path / "rates-batch"), "late").collect()
    assert row.late == "gap"


def test_key_unreadable_by_java_is_refused(secured: Secured, tmp_path: Path) -> None:
    """Java needs PKCS 8. Certificates and keys are passed by value."""
    settings = secured.settings("MUTUAL")
    own = java_settings(read_security(settings, {}))
    assert own["kafka.ssl.truststore.certificates"] == (secured.folder / "ca.crt").read_text()
    new, old = secured.folder / "client.key", tmp_path / "old.key"
    command = ["openssl", "pkey", "-in", str(new), "-traditional", "-out", str(old)]
    subprocess.run(command, check=True, capture_output=True, timeout=OPENSSL_TIMEOUT_S)
    with pytest.raises(Refused, match=r"old\.key: Java reads .* openssl pkcs8 -topk8"):
        java_settings(read_security(settings.replace(str(new), str(old)), {}))


def test_token_login_is_refused(secured: Secured) -> None:
    with pytest.raises(Refused, match="accepts a certificate or SCRAM"):
        java_settings(read_security(secured.settings("BEARER"), {}))
