"""Examples: values of the chart that scale the pods, and values that are refused."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from agents.kafka.stage_topics import group_inputs, group_of, inputs_of
from infra import helm as helm_chart
from infra.helm import HelmFailed, missing, render
from tests.infra.test_helm import (
    PLAIN,
    STAGES,
    STRIMZI,
    TOKEN_FROM,
    Manifest,
    manifests,
    topology_of,
)
from tests.services import require
from topology.base.user_functions import UserFunctions
from topology.config import parse, parse_with
from topology.queries.detector.detector import Detector

LAG: Mapping[str, object] = {"min": 1, "max": 2, "topic": "events.raw", "records": 1}
BOTH = json.dumps({"cpu": {"min": 1, "max": 2, "percent": 70}, "lag": LAG})
OTHERS = ("--set-json", "workers.others={}")
"""A set of workers that runs all stages."""

BY_STREAM = "topology=streams: {default: {keyed_by: stream}}"
"""A topology in which each partition is a task."""

WINDOW = "{window: tumbling 1s, aggregate: {n: count()}}"
REFERENCE = {"name": "inorder-kafka"}
TLS = {"tls": "enable"}

pytestmark = [pytest.mark.programs, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def helm() -> None:
    require(missing())


def scale_by_lag(worker: str = "all", /, **more: object) -> tuple[str, str]:
    """Return the option that scales these pods by lag."""
    return ("--set-json", f"workers.{worker}.autoscaling.lag={json.dumps({**LAG, **more})}")


def lag_trigger(found: list[Manifest]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return KEDA's lag trigger and its metadata."""
    (scaling,) = [one["spec"] for one in found if one["kind"] == "ScaledObject"]
    (trigger,) = scaling["triggers"]
    assert trigger["type"] == "kafka"
    return trigger, trigger["metadata"]


def test_lag_in_time_uses_prometheus() -> None:
    by_time = scale_by_lag("reorder", seconds=60, prometheus="http://p:9090")
    found = manifests(STAGES, "--namespace", "plant", *by_time)
    (scaling,) = [one["spec"] for one in found if one["kind"] == "ScaledObject"]
    by_records, trigger = scaling["triggers"]
    assert by_records["type"] == "kafka"
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "Value")
    series = 'namespace="plant",job="test-metrics",stage="reorder"'
    assert trigger["metadata"] == {
        "serverAddress": "http://p:9090",
        "query": f"max(inorder_input_lag_seconds{{{series}}})",
        "threshold": "60",
    }


def test_example_scales_by_stage_lag() -> None:
    found = manifests(STAGES)
    topology = topology_of(found)
    (stage,) = [stage for stage in topology.stages if stage.name == "reorder"]
    trigger, metadata = lag_trigger(found)
    assert metadata["consumerGroup"] == group_of(topology, stage)
    assert metadata["topic"] in inputs_of(topology, stage)
    assert metadata["bootstrapServers"] == "kafka-bootstrap.kafka:9092"
    assert "authenticationRef" not in trigger
    assert not {"tls", "sasl"} & metadata.keys()


@pytest.mark.parametrize(
    ("text", "run", "lag_stage", "counts"),
    [
        ("stages: [reorder+merge]", [], None, "reorder+merge"),
        ("stages: [reorder + merge]", ["reorder+merge"], None, "reorder+merge"),
        ("application: plant-7\nstages: [reorder, merge]", ["merge"], None, "merge"),
        ("stages: [reorder, merge]", [], "merge", "merge"),
        ("stages: [reorder, merge]", ["reorder", "merge"], "reorder", "reorder"),
        ("", [], None, "all"),
        ("", ["all"], None, "all"),
        ("stages: [all]", [], None, "all"),
        ("queries: {d: {detector: mean}}", ["detector"], None, "detector"),
        ("queries: {d: {detector: mean}}", ["all", "detector"], "all", "all"),
        ("queries: {d: {detector: mean, answer: speculate}}", [], None, "all"),
        (f"queries: {{w: {WINDOW}, d: {{detector: mean, reads: [w]}}}}", [], None, "all"),
    ],
)
def test_lag_is_read_for_workers_group(
    text: str, run: list[str], lag_stage: str | None, counts: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(f"streams: {{default: {{keyed_by: stream}}}}\n{text}\n")
    found = manifests(
        PLAIN,
        *("--set-file", f"topology={file}", "--set-json", f"workers.all.stages={json.dumps(run)}"),
        *OTHERS,
        *scale_by_lag(**({} if lag_stage is None else {"stage": lag_stage})),
    )
    own = UserFunctions(detectors={"mean": Detector(lambda state, event: (state, None))})
    topology = parse_with(file.read_text(), own)
    groups = {stage.name: group_of(topology, stage) for stage in topology.stages}
    assert lag_trigger(found)[1]["consumerGroup"] == groups[counts]


@pytest.mark.parametrize(
    ("values", "option", "says"),
    [
        (STRIMZI, "token=true", {**TLS, "sasl": "scram_sha512"}),
        (STRIMZI, r"kafka.settings.sasl\.mechanism=plain", {**TLS, "sasl": "plaintext"}),
        (PLAIN, r"kafka.settings.security\.protocol=SSL", TLS),
        (PLAIN, "workers.all.env.INORDER_SECURITY_PROTOCOL=SSL", TLS),
        (PLAIN, "token=true", {}),
    ],
)
def test_keda_gets_broker_credentials(values: Path, option: str, says: dict[str, str]) -> None:
    lag = scale_by_lag(authenticationRef=REFERENCE)
    found = manifests(values, "--set-string", BY_STREAM, "--set", option, *lag)
    trigger, metadata = lag_trigger(found)
    assert {name: metadata[name] for name in ("tls", "sasl") if name in metadata} == says
    assert trigger["authenticationRef"] == REFERENCE


CPU_SCALED = ("--set-json", 'workers.all.autoscaling.cpu={"min": 1, "max": 2, "percent": 70}')
TWO_INPUTS = "streams: {a: {input: a%s}, b: {input: b%s}}\n"
KEYED = ", keyed_by: stream"
JOIN = "{join: interval 1s, sides: {l: {stream: a}, r: {stream: b}}}"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("streams: {default: {}}\n", True),
        (f"streams: {{default: {{}}}}\nqueries: {{w: {WINDOW}}}\n", True),
        ("streams: {default: {}}\nstages: [reorder+merge]\n", True),
        ("streams: {default: {}}\nstages: [reorder, merge]\n", False),
        ("streams: {default: {keyed_by: stream}}\n", False),
        ("streams: {a: {keyed_by: stream}, b: {}}\n", True),
        (TWO_INPUTS % ("", ""), False),
        (f"{TWO_INPUTS % ('', '')}queries: {{j: {JOIN}}}\n", True),
        (f"{TWO_INPUTS % (KEYED, KEYED)}queries: {{j: {JOIN}}}\n", True),
        (TWO_INPUTS % (KEYED, KEYED), False),
    ],
)
def test_single_task_is_not_autoscaled(text: str, is_one: bool, tmp_path: Path) -> None:
    """The chart refuses autoscaling exactly if the topology has one group of partitions."""
    topology = parse(text)
    inputs = {stream.input for stream in topology.streams.values()}
    groups = topology.topics_read_together if topology.fused else []
    assert is_one == (len(groups) == 1 and {*groups[0]} == inputs)
    file = tmp_path / "t.yaml"
    file.write_text(text)
    given = ("--values", str(PLAIN), "--set-file", f"topology={file}", *CPU_SCALED)
    if is_one:
        says = "autoscaling: one task of stage .* reads all partitions, so other pods are standbys"
        with pytest.raises(HelmFailed, match=f"workers.all.{says}; set replicas: 2, or cut"):
            render(*given)
    else:
        assert "HorizontalPodAutoscaler" in render(*given)


def draw_topology(rng: Random) -> str:
    """Draw a topology whose streams have several inputs, some of which are joined."""
    names = "abcd"[: rng.randint(1, 4)]
    streams = {
        name: {
            **({"input": rng.choice("xyz")} if rng.random() < 0.8 else {}),
            **({"keyed_by": rng.choice(("stream", "source"))} if rng.random() < 0.9 else {}),
        }
        for name in names
    }
    queries = {
        f"j{number}": {
            "join": "interval 1s",
            "sides": {side: {"stream": rng.choice(names), "type": side} for side in "lr"},
        }
        for number in range(rng.randrange(4))
    }
    file: dict[str, Any] = {"streams": streams, "queries": queries}
    if stages := rng.choice(([], ["all"], ["reorder+merge", "join"], ["reorder", "merge+join"])):
        file["stages"] = stages
    return json.dumps(file)


def test_law_chart_finds_single_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chart and the topology agree on which stages have one task.

    A chart with the same template takes many topologies as values, and answers for each stage.
    """
    rng = Random(72)
    texts = [draw_topology(rng) for _ in range(400)]
    expected: list[dict[str, Any]] = []
    for text in texts:
        topology = parse(text)
        for stage in topology.stages:
            whole = [*group_inputs(topology, stage)] == [sorted(inputs_of(topology, stage))]
            expected.append({"topology": text, "stage": stage.name, "isOne": whole})
    assert 0.2 < sum(each["isOne"] for each in expected) / len(expected) < 0.8
    chart = tmp_path / "rules"
    (chart / "templates").mkdir(parents=True)
    shutil.copy(helm_chart.CHART / "Chart.yaml", chart)
    shutil.copy(helm_chart.CHART / "templates" / "_helpers.tpl", chart / "templates")
    (chart / "templates" / "said.yaml").write_text(
        "said:\n{{- range .Values.files }}\n"
        '- {{ include "inorder.isOneTask" (dict "root" (dict "Values" .) "stage" .stage)'
        " | toJson }}\n{{- end }}\n"
    )
    (chart / "values.yaml").write_text(json.dumps({"files": expected}))
    monkeypatch.setattr(helm_chart, "CHART", chart)
    said = yaml.safe_load(render())["said"]
    found = [{**each, "isOne": word == "yes"} for each, word in zip(expected, said, strict=True)]
    assert found == expected


def words(given: str) -> list[str]:
    """Return the options; a text that is no option is a value of `--set`."""
    return shlex.split(given) if given.startswith("--") else ["--set", given]


BY_LAG = shlex.join(scale_by_lag())
CPU = "workers.all.autoscaling.cpu"
OPEN = "--set-string 'topology=streams: {default: {}}' --set"
SECURITY = r"kafka.settings.security\.protocol"
SECRET = "kafka.secretEnv.INORDER_SECURITY_PROTOCOL"
POSTGRES = json.dumps([{"name": "INORDER_POSTGRES", "value": "postgres://a:b@h/d"}])
TOKEN_FILE = f"kafka.secretEnv.INORDER_HTTP_TOKEN_FILE={json.dumps(TOKEN_FROM)}"
REFUSED = [
    ("brokers=", "brokers: give the addresses of Kafka"),
    ("topology=", "topology: give the topology file"),
    ("brokers=kafka", "brokers"),
    ("workers.all.replica=3", "replica"),
    ("peers=true", "peers"),
    ("workers.all.kind=DaemonSet", "kind"),
    ("syncServer.enabled=true", "syncServer.keys: name the secret"),
    ("spark.enabled=true", "spark.image: the image that"),
    (
        r"kafka.settings.sasl\.oauthbearer\.client\.secret=x",
        "write kafka.secretEnv: {INORDER_SASL_OAUTHBEARER_CLIENT_SECRET: {name: SECRET",
    ),
    (r"kafka.settings.sasl\.password=x", "INORDER_SASL_PASSWORD"),
    (
        "workers.all.env.INORDER_SASL_PASSWORD=x",
        "workers.all.env.INORDER_SASL_PASSWORD: a secret in plain text; write kafka.secretEnv",
    ),
    (
        "workerDefaults.env.INORDER_REDIS=redis://:x@h:1/0",
        "workerDefaults.env.INORDER_REDIS: a secret in plain text",
    ),
    ("workerDefaults.env.OTEL_SERVICE_NAME=x", "OTEL_SERVICE_NAME"),
    (
        "--set-string 'topology=streams: {default: {}}\nredis: redis://:x@h:1/0\n'",
        "topology: a URL has a password.*INORDER_REDIS_PASSWORD",
    ),
    (
        r"--set-string 'topology=stages: [reorder\, merge]' --set workers.all.stages={reorder}",
        "no set runs stage merge of the topology",
    ),
    (f"{OPEN} workers.all.stages={{merge}}", "the topology has no stage merge, but all"),
    (
        "--set-string 'topology=queries: {d: {detector: mean}}' --set workers.all.stages={all}",
        "no set runs stage detector of the topology",
    ),
    (f"{CPU}.min=1", "max"),
    ("monitoring.podMonitor=true,monitoring.serviceMonitor=true", "not both"),
    ("monitoring.annotations=true", "annotations cannot carry it; set serviceMonitor or podMon"),
    (
        f"--set-json '{TOKEN_FILE}'",
        "TOKEN_FILE: Prometheus has to send the token too; give its secret as INORDER",
    ),
    (
        "workerDefaults.env.INORDER_HTTP_TOKEN_FILE=x",
        "INORDER_HTTP_TOKEN_FILE: Prometheus has to send the token too",
    ),
    (f"--set-json 'extraEnv={POSTGRES}'", "extraEnv.INORDER_POSTGRES: a secret in plain text"),
    ("workers.metrics.replicas=1", "workers.metrics: the name is that of a service"),
    (f"--set-json 'workers.all.autoscaling={BOTH}'", "by cpu or by lag, not by both"),
    (f"{CPU}.min=5,{CPU}.max=2,{CPU}.percent=70", "autoscaling.cpu: min is 5 and max 2"),
    (shlex.join(scale_by_lag(min=5)), "workers.all.autoscaling.lag: min is 5 and max 2"),
    ("workers.all.stages={nosuch}", "has no stage nosuch, but all"),
    ("workers.all.stages={reorder}", "has no stage reorder, but all"),
    (shlex.join(scale_by_lag(stage="merge")), "lag.stage: the topology has no stage merge"),
    (shlex.join(scale_by_lag(group="inorder-reorder")), "'group' not allowed"),
    (f"{BY_LAG} --set 'topology=a: ['", "topology: it is not YAML"),
    (
        rf"{BY_LAG} --set '{SECURITY}=SSL,kafka.settings.ssl\.ca\.location=/etc/inorder-tls/a/ca'",
        "lag.authenticationRef: the brokers use SSL",
    ),
    (f"{BY_LAG} --set '{SECURITY}=SASL_PLAINTEXT'", "SASL_PLAINTEXT needs sasl.mechanism"),
    (
        f"{BY_LAG} --set {SECRET}.name=a,{SECRET}.key=b",
        "write INORDER_SECURITY_PROTOCOL into kafka.settings",
    ),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_bad_value_names_the_remedy(options: str, says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        render("--values", str(PLAIN), *words(options))


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        (STRIMZI, scale_by_lag(), "lag.authenticationRef: the brokers use SASL_SSL"),
        (
            PLAIN,
            ("--set-string", r"topology=stages: [reorder\, merge]", *scale_by_lag()),
            "lag.stage: the pods run several stages",
        ),
        (
            STAGES,
            scale_by_lag("reorder", stage="window"),
            "these pods do not run window, but reorder",
        ),
    ],
)
def test_unusable_lag_is_refused(values: Path, options: tuple[str, str], says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        render("--values", str(values), *options)
