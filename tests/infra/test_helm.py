"""The chart: what it renders is what Kubernetes takes, and what the command line takes.

The sets of values are those that ship as examples, in `infra/helm/values`. What they render lies in
`tests/infra/helm`; with INORDER_WRITE_GOLDEN=1 it is written anew.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from agents.kafka.stage_topics import group_of, inputs_of
from agents.process import supervisor
from agents.watch.port import http, token
from infra.helm import CHART, KUBERNETES, HelmFailed, missing, render
from tests import ROOT
from tests.docs.commands import commands_of
from tests.infra.command_words import assert_known
from tests.services import require
from topology.config import Topology, parse
from topology.config.stages import operators

GOLDEN = Path(__file__).parent / "helm"
VALUES = sorted((CHART.parent / "values").glob("*.yaml"))
PAGE = ROOT / "docs/kubernetes.md"
PLAIN = CHART.parent / "values" / "plain.yaml"
STAGES = CHART.parent / "values" / "stages.yaml"
MTLS = CHART.parent / "values" / "mtls.yaml"
STRIMZI = CHART.parent / "values" / "strimzi.yaml"
CUSTOM = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject", "SparkApplication"}
"""Kinds that operators bring: their schemas do not ship with Kubernetes."""

VERSIONS = ("1.27", KUBERNETES, "1.37")
"""The oldest that the chart takes, what it is rendered for, the newest whose schemas are known."""

BOTH = json.dumps(
    {
        "cpu": {"min": 1, "max": 2, "percent": 70},
        "lag": {"min": 1, "max": 2, "topic": "t", "records": 1},
    }
)

LAG: Mapping[str, object] = {"min": 1, "max": 2, "topic": "events.raw", "records": 1}
OTHERS = ("--set-json", "workers.others={}")
"""A set that runs all stages."""

REFERENCE = {"name": "inorder-kafka"}

Manifest = Mapping[str, Any]

pytestmark = pytest.mark.slow
by_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: str(path.stem))


@pytest.fixture(scope="module", autouse=True)
def helm() -> None:
    require(missing())


def manifests(values: Path, *options: str) -> list[Manifest]:
    found = yaml.safe_load_all(render("--values", str(values), *options))
    return [manifest for manifest in found if manifest]


def containers(found: list[Manifest]) -> Iterator[Mapping[str, Any]]:
    for manifest in found:
        spec = manifest.get("spec", {})
        pod = spec if manifest["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
        yield from pod.get("initContainers", [])
        yield from pod.get("containers", [])


@by_values
def test_it_renders_what_it_did(values: Path) -> None:
    golden = GOLDEN / values.name
    said = re.sub(r"(?m)^  token: \S+$", "  token: A", render("--values", str(values)))
    if os.environ.get("INORDER_WRITE_GOLDEN"):
        golden.write_text(said)
    assert said == golden.read_text()


@by_values
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_it(values: Path, version: str) -> None:
    found = manifests(values)
    for manifest in found:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(dict(manifest), version, strict=True)
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in found]
    assert len(set(names)) == len(names)


@by_values
def test_commands_and_options_are_those_of_the_command_line(values: Path) -> None:
    for container in containers(manifests(values)):
        assert_known(container["args"])


@by_values
def test_the_topology_is_sound_and_its_stages_are_run(values: Path) -> None:
    found = manifests(values)
    topology = topology_of(found)
    stages = {stage.name for stage in topology.stages}
    run: set[str] = set()
    for container in containers(found):
        if container["args"][0] == "worker":
            named = {
                word.split("=")[1] for word in container["args"] if word.startswith("--stage=")
            }
            run |= named or stages
    assert run == stages


@by_values
def test_no_container_may_more_than_it_must(values: Path) -> None:
    for container in containers(manifests(values)):
        may = container["securityContext"]
        assert may["readOnlyRootFilesystem"]
        assert not may["allowPrivilegeEscalation"]
        assert may["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


def test_what_the_page_tells_to_type_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (install,) = [each for each in commands_of(PAGE) if each.words[:2] == ("helm", "install")]
    _, _, name, chart, *options = install.words
    assert ROOT / chart == CHART
    (tmp_path / "t.yaml").write_text("streams: {default: {}}\n")
    monkeypatch.chdir(tmp_path)
    found = list(yaml.safe_load_all(render(*options, name=name)))
    (worker,) = [one for one in found if one["kind"] == "StatefulSet"]
    assert worker["metadata"]["name"] == f"{name}-all"
    images = {one["image"] for one in containers(found)}
    assert images == {"registry.example/inorder:0.1.0"}


def test_a_grace_is_longer_than_a_checkpoint_and_its_answer() -> None:
    (worker,) = [one for one in manifests(PLAIN) if one["kind"] == "StatefulSet"]
    grace_s = worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= supervisor.STOP_TIMEOUT_S + http.STOP_TIMEOUT_S
    assert worker["spec"]["podManagementPolicy"] == "Parallel"


def test_a_service_monitor_finds_the_port_of_every_pod_that_has_one() -> None:
    found = manifests(CHART.parent / "values" / "stages.yaml")
    kinds = {"Deployment", "StatefulSet"}
    pods = [one["spec"]["template"] for one in found if one["kind"] in kinds]
    (monitor,) = [one for one in found if one["kind"] == "ServiceMonitor"]
    (service,) = [one for one in found if has(one, monitor["spec"]["selector"]["matchLabels"])]
    assert service["kind"] == "Service"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert len(pods) == 4
    for pod in pods:
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        ports = [port["name"] for each in pod["spec"]["containers"] for port in each["ports"]]
        assert "http" in ports
        assert "annotations" not in pod["metadata"], "nor found twice"


TOKEN_FROM = {"name": "inorder-http", "key": "token"}


MADE = {"name": "test-http", "key": "token"}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_a_monitor_shows_the_token_that_the_pods_want(monitor: str, own: bool) -> None:
    given = ("--set-json", f"kafka.secretEnv.{token.VARIABLE}={json.dumps(TOKEN_FROM)}")
    wanted = TOKEN_FROM if own else MADE
    found = manifests(PLAIN, "--set", f"monitoring.{monitor}=true", *(given if own else ()))
    (monitoring,) = [one["spec"] for one in found if one["kind"].lower() == monitor.lower()]
    (endpoint,) = monitoring.get("endpoints") or monitoring["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": wanted}
    for name in ("worker", "explain"):
        (one,) = [one for one in containers(found) if one["name"] == name]
        (shown,) = [one["valueFrom"] for one in one["env"] if one["name"] == token.VARIABLE]
        assert shown == {"secretKeyRef": wanted}
    secrets = [one for one in found if one["kind"] == "Secret"]
    assert len(secrets) == (not own)
    for secret in secrets:
        made = base64.b64decode(secret["data"][MADE["key"]]).decode()
        assert token.token_in({token.VARIABLE: made}) == made


def test_without_a_token_pods_may_bear_annotations() -> None:
    (worker,) = [
        one["spec"]["template"]["metadata"]["annotations"]
        for one in manifests(PLAIN, "--set", "token=false,monitoring.annotations=true")
        if one["kind"] == "StatefulSet"
    ]
    assert worker["prometheus.io/port"] == "8080"


@pytest.mark.parametrize("knows", [True, False])
def test_what_the_cluster_knows_is_watched(knows: bool) -> None:
    """By default; and the network policy lets it in."""
    kinds = ("PodMonitor", "PrometheusRule")
    known = [f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in kinds if knows]
    found = manifests(PLAIN, *known, "--set", "monitoring.namespace=prom")
    assert {one["kind"] for one in found if one["kind"] in CUSTOM} == set(kinds if knows else ())
    (policy,) = [one["spec"]["ingress"] for one in found if one["kind"] == "NetworkPolicy"]
    assert ("kubernetes.io/metadata.name: prom" in yaml.safe_dump(policy)) == knows


def test_topics_are_made_before_all_else_with_what_that_takes() -> None:
    found = manifests(MTLS)
    hooks = {
        (one["kind"], one["metadata"]["name"]): one
        for one in found
        if "pre-install" in one["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    }
    job = hooks["Job", "test-topics"]["spec"]["template"]["spec"]
    assert ("ServiceAccount", job["serviceAccountName"]) in hooks
    maps = [volume["configMap"]["name"] for volume in job["volumes"] if "configMap" in volume]
    assert all(("ConfigMap", name) in hooks for name in maps)
    assert not [one for one in containers([hooks["Job", "test-topics"]]) if "Secret" in str(one)]
    assert not [one for one in manifests(STRIMZI) if one["kind"] == "Job"], "topics.create: false"


@by_values
def test_what_settings_name_is_mounted(values: Path) -> None:
    found = manifests(values)
    (settings,) = {one["data"].get("kafka.properties", "") for one in found if "data" in one} - {
        ""
    } or {""}
    named = re.findall(r"=(?:file://)?(/etc/\S+)/[^/\s]+$", settings, re.M)
    for one in containers(found):
        mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
        assert set(named) <= mounts, one["name"]
    for one in found:
        spec = one.get("spec", {}).get("template", {}).get("spec", {})
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        volumes |= {
            claim["metadata"]["name"]
            for claim in one.get("spec", {}).get("volumeClaimTemplates", [])
        }
        for container in spec.get("containers", []):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_every_pod_has_what_the_user_adds() -> None:
    extra: dict[str, Any] = {
        "priorityClassName": "high",
        "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "plant"}],
        "extraVolumes": [{"name": "maps", "configMap": {"name": "maps"}}],
        "extraVolumeMounts": [{"name": "maps", "mountPath": "/maps"}],
        "kafka.token": {"audience": "kafka"},
    }
    given = [word for name in extra for word in ("--set-json", f"{name}={json.dumps(extra[name])}")]
    found = manifests(STAGES, *given)
    for one in found:
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(dict(one), KUBERNETES, strict=True)
        spec = one.get("spec", {})
        pod = spec if one["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
        if pod:
            assert pod["priorityClassName"] == "high"
            assert extra["extraVolumes"][0] in pod["volumes"]
    for container in containers(found):
        assert extra["extraEnv"][0] in container["env"]
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/maps", "/etc/inorder-token"} <= mounted


def test_a_sync_server_is_spread_probed_and_kept() -> None:
    found = [one for one in manifests(STAGES) if one["metadata"]["name"] == "test-sync"]
    (budget,) = [one["spec"] for one in found if one["kind"] == "PodDisruptionBudget"]
    (server,) = [one["spec"]["template"] for one in found if one["kind"] == "StatefulSet"]
    selector = budget["selector"]["matchLabels"]
    assert selector.items() <= server["metadata"]["labels"].items()
    (spread,) = server["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == selector
    (container,) = server["spec"]["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def topology_of(found: list[Manifest]) -> Topology:
    (text,) = {
        manifest["data"]["topology.yaml"]
        for manifest in found
        if "topology.yaml" in manifest.get("data", {})
    }
    return parse(text)


def by_lag(worker: str = "all", /, **more: object) -> tuple[str, str]:
    """The option that scales these pods by lag."""
    return ("--set-json", f"workers.{worker}.autoscaling.lag={json.dumps({**LAG, **more})}")


def scaled(found: list[Manifest]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """What KEDA is told: all, and of the topic."""
    (scaling,) = [one["spec"] for one in found if one["kind"] == "ScaledObject"]
    (trigger,) = scaling["triggers"]
    assert trigger["type"] == "kafka"
    return trigger, trigger["metadata"]


def test_lag_in_time_is_asked_of_prometheus() -> None:
    by_time = by_lag("reorder", seconds=60, prometheus="http://p:9090")
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


def test_the_example_scales_by_the_lag_of_a_group_and_topic_that_are_there() -> None:
    found = manifests(STAGES)
    topology = topology_of(found)
    (stage,) = [stage for stage in topology.stages if stage.name == "reorder"]
    trigger, metadata = scaled(found)
    assert metadata["consumerGroup"] == group_of(topology, stage)
    assert metadata["topic"] in inputs_of(topology, stage)
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
        ("", ["reorder"], None, "reorder"),
    ],
)
def test_the_lag_is_that_of_the_group_the_workers_form(
    text: str, run: list[str], lag_stage: str | None, counts: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(f"streams: {{default: {{}}}}\n{text}\n")
    found = manifests(
        PLAIN,
        *("--set-file", f"topology={file}", "--set-json", f"workers.all.stages={json.dumps(run)}"),
        *OTHERS,
        *by_lag(**({} if lag_stage is None else {"stage": lag_stage})),
    )
    topology = topology_of(found)
    groups = {stage.name: group_of(topology, stage) for stage in topology.stages}
    assert scaled(found)[1]["consumerGroup"] == groups[counts]


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        (STRIMZI, (), {"tls": "enable", "sasl": "scram_sha512"}),
        (
            STRIMZI,
            (r"kafka.settings.sasl\.mechanism=plain",),
            {"tls": "enable", "sasl": "plaintext"},
        ),
        (PLAIN, (r"kafka.settings.security\.protocol=SSL",), {"tls": "enable"}),
        (PLAIN, ("workers.all.env.INORDER_SECURITY_PROTOCOL=SSL",), {"tls": "enable"}),
        (PLAIN, (), {}),
    ],
)
def test_keda_is_told_how_the_brokers_are_reached(
    values: Path, options: tuple[str, ...], says: dict[str, str]
) -> None:
    given = [word for option in options for word in ("--set", option)]
    stage = "merge" if values == STRIMZI else "reorder+merge"
    found = manifests(values, *given, *by_lag(stage=stage, authenticationRef=REFERENCE))
    trigger, metadata = scaled(found)
    assert {name: metadata[name] for name in ("tls", "sasl") if name in metadata} == says
    assert trigger["authenticationRef"] == REFERENCE


def test_a_topology_that_leaves_the_stages_open_may_have_any_of_the_chain(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("streams: {default: {}}\n")
    stages = json.dumps([*operators(), "+".join(operators())])
    open_ones = ("--set-file", f"topology={file}", *OTHERS, "--set-json")
    found = containers(manifests(PLAIN, *open_ones, f"workers.all.stages={stages}"))
    args = [word for one in found if one["name"] == "worker" for word in one["args"]]
    assert f"--stage={operators()[-1]}" in args
    with pytest.raises(HelmFailed, match=f"nosuch is no stage.*{', '.join(operators())}"):
        manifests(PLAIN, *open_ones, 'workers.all.stages=["nosuch"]')


def has(manifest: Manifest, labels: Mapping[str, str]) -> bool:
    borne: Mapping[str, str] = manifest["metadata"].get("labels", {})
    return labels.items() <= borne.items()


def test_a_pod_of_a_stateful_set_keeps_its_place_in_the_group() -> None:
    (worker,) = [one for one in containers(manifests(PLAIN)) if one["name"] == "worker"]
    (instance,) = [one for one in worker["env"] if one["name"] == "INORDER_INSTANCE"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_other_settings_lie_beside_those_of_before_and_start_workers_anew() -> None:
    names = set()
    for more in ((), ("--set-string", "functions.f\\.py=functions = {}")):
        found = manifests(PLAIN, *more)
        (settings,) = [one for one in found if one.get("immutable")]
        (worker,) = [one for one in found if one["kind"] == "StatefulSet"]
        volumes = worker["spec"]["template"]["spec"]["volumes"]
        assert {"name": settings["metadata"]["name"]} in [one.get("configMap") for one in volumes]
        names.add(settings["metadata"]["name"])
    assert len(names) == 2


def test_a_pod_that_comes_back_under_another_name_has_no_long_session() -> None:
    for one in containers(manifests(STAGES)):
        assert not [word for word in one["args"] if word.startswith("--session")]
    for one in containers(manifests(PLAIN)):
        assert one["name"] != "worker" or "--session=20s" in one["args"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set", "brokers="], "brokers: say where Kafka answers"),
        (["--set", "topology="], "topology: give the topology file"),
        (["--set", "brokers=kafka"], "brokers"),
        (["--set", "workers.all.replica=3"], "replica"),
        (["--set", "workers.all.kind=DaemonSet"], "kind"),
        (["--set", "syncServer.enabled=true"], "syncServer.keys: name the secret"),
        (["--set", "spark.enabled=true"], "spark.image: the image that"),
        (
            ["--set", r"kafka.settings.sasl\.oauthbearer\.client\.secret=x"],
            "write kafka.secretEnv: {INORDER_SASL_OAUTHBEARER_CLIENT_SECRET: {name: SECRET",
        ),
        (["--set", r"kafka.settings.sasl\.password=x"], "INORDER_SASL_PASSWORD"),
        (
            ["--set", "workers.all.env.INORDER_SASL_PASSWORD=x"],
            "workers.all.env.INORDER_SASL_PASSWORD: a secret in plain text; write kafka.secretEnv",
        ),
        (
            ["--set", "workerDefaults.env.INORDER_REDIS=redis://:x@h:1/0"],
            "workerDefaults.env.INORDER_REDIS: a secret in plain text",
        ),
        (
            ["--set", "workerDefaults.env.OTEL_EXPORTER_OTLP_HEADERS=a=b"],
            "OTEL_EXPORTER_OTLP_HEADERS: a secret in plain text",
        ),
        (
            ["--set-string", "topology=streams: {default: {}}\nredis: redis://:x@h:1/0\n"],
            "topology: a URL holds a password.*INORDER_REDIS_PASSWORD",
        ),
        (
            [
                "--set-string",
                "topology=stages: [reorder\\, merge]",
                "--set",
                "workers.all.stages={reorder}",
            ],
            "nobody runs stage merge of the topology",
        ),
        (
            [
                "--set-string",
                "topology=streams: {default: {}}",
                "--set",
                "workers.all.stages={merge}",
            ],
            "the topology leaves them open; write `stages:`",
        ),
        (["--set", "workers.all.autoscaling.cpu.min=1"], "max"),
        (["--set", "monitoring.podMonitor=true,monitoring.serviceMonitor=true"], "not both"),
        (
            ["--set", "monitoring.annotations=true"],
            "annotations cannot carry it; set serviceMonitor or podMonitor",
        ),
        (
            ["--set-json", f"kafka.secretEnv.INORDER_HTTP_TOKEN_FILE={json.dumps(TOKEN_FROM)}"],
            "TOKEN_FILE: Prometheus has to show the token too; give its secret as INORDER",
        ),
        (
            ["--set", "workerDefaults.env.INORDER_HTTP_TOKEN_FILE=x"],
            "INORDER_HTTP_TOKEN_FILE: Prometheus has to show the token too",
        ),
        (
            [
                "--set-json",
                'extraEnv=[{"name": "INORDER_POSTGRES", "value": "postgres://a:b@h/d"}]',
            ],
            "extraEnv.INORDER_POSTGRES: a secret in plain text",
        ),
        (["--set", "workers.metrics.replicas=1"], "workers.metrics: the name is that of a service"),
        (["--set-json", f"workers.all.autoscaling={BOTH}"], "by cpu or by lag, not by both"),
        (
            [
                "--set",
                "workers.all.autoscaling.cpu.min=5,workers.all.autoscaling.cpu.max=2,workers.all.autoscaling.cpu.percent=70",
            ],
            "workers.all.autoscaling.cpu: min is 5 and max 2",
        ),
        ([*by_lag(min=5)], "workers.all.autoscaling.lag: min is 5 and max 2"),
        (["--set", "workers.all.stages={nosuch}"], "has no stage nosuch, but reorder.merge"),
        (["--set", "workers.all.stages={reorder}"], "has no stage reorder, but reorder.merge"),
        ([*by_lag(stage="merge")], "lag.stage: the topology has no stage merge"),
        ([*by_lag(group="inorder-reorder")], "'group' not allowed"),
        (["--set", "topology=a: [", *by_lag()], "topology: it is no YAML"),
        (
            [
                *by_lag(),
                "--set",
                r"kafka.settings.security\.protocol=SSL,kafka.settings.ssl\.ca\.location=/etc/inorder-tls/a/ca.crt",
            ],
            "lag.authenticationRef: the brokers speak SSL",
        ),
        (
            [*by_lag(), "--set", r"kafka.settings.security\.protocol=SASL_PLAINTEXT"],
            "SASL_PLAINTEXT needs sasl.mechanism",
        ),
        (
            [
                *by_lag(),
                "--set",
                "kafka.secretEnv.INORDER_SECURITY_PROTOCOL.name=a,kafka.secretEnv.INORDER_SECURITY_PROTOCOL.key=b",
            ],
            "write INORDER_SECURITY_PROTOCOL into kafka.settings",
        ),
    ],
)
def test_values_that_cannot_be_are_refused_in_a_sentence(options: list[str], says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        render("--values", str(PLAIN), *options)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"authenticationRef": REFERENCE},
            "all.autoscaling.lag.stage: the pods run several stages",
        ),
        ({"stage": "merge"}, "lag.authenticationRef: the brokers speak SASL_SSL"),
    ],
)
def test_a_lag_that_nobody_could_ask_for_is_refused(more: dict[str, object], says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        render("--values", str(STRIMZI), *by_lag(**more))


def test_pods_are_not_scaled_by_a_stage_they_do_not_run() -> None:
    with pytest.raises(HelmFailed, match="these pods do not run window, but reorder"):
        render("--values", str(STAGES), *by_lag("reorder", stage="window"))


def test_rules_look_at_their_own_release_alone() -> None:
    rules_of = {
        name: [rule for group in one["spec"]["groups"] for rule in group["rules"]]
        for name in ("plant", "other")
        for one in manifests(STAGES, "--namespace", name, "--set", "monitoring.runbooks=https://d/")
        if one["kind"] == "PrometheusRule"
    }
    for name, rules in rules_of.items():
        plain = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"][0]["rules"]
        assert [rule["alert"] for rule in rules] == [rule["alert"] for rule in plain]
        for rule, written in zip(rules, plain, strict=True):
            metrics = re.findall(r"\binorder_[a-z_]+", rule["expr"])
            assert rule["expr"].count(f'{{namespace="{name}",job="') == len(metrics), rule
            assert re.findall(r"\binorder_[a-z_]+", written["expr"]) == metrics
            assert rule["annotations"]["runbook_url"].startswith("https://d/docs/alerts.md#")
            assert (rule["labels"], rule.get("for")) == (written["labels"], written.get("for"))
