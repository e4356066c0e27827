"""Examples: Kubernetes accepts what the chart renders, and so does the command line.

Sets of values are those that ship as examples, in `infra/helm/values`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from agents.process import supervisor
from agents.watch.port import http, token
from cli.durations import duration_ns
from infra.helm import CHART, KUBERNETES, missing, render
from tests import ROOT
from tests.docs.commands import commands_of
from tests.docs.judge import judge_inorder
from tests.services import require
from topology.config import Topology, parse

VALUES = sorted((CHART.parent / "values").glob("*.yaml"))
PAGE = ROOT / "docs/operate/kubernetes.md"
PLAIN, STAGES, MTLS, STRIMZI = (
    CHART.parent / "values" / f"{name}.yaml" for name in ("plain", "stages", "mtls", "strimzi")
)
CUSTOM = {
    **dict.fromkeys(("PodMonitor", "ServiceMonitor", "PrometheusRule"), "monitoring.coreos.com/v1"),
    "ScaledObject": "keda.sh/v1alpha1",
    "SparkApplication": "sparkoperator.k8s.io/v1beta2",
}
"""Kinds that operators bring, with their versions; their schemas do not ship with Kubernetes."""

VERSIONS = ("1.27", KUBERNETES, "1.37")
"""Versions: the oldest that the chart accepts, the one it is rendered for, and the newest with
known schemas."""

USER = 10_001
HELM_WAITS_S = 300
"""Seconds that `helm install` and `helm upgrade` wait by default."""

Manifest = Mapping[str, Any]

pytestmark = [pytest.mark.programs, pytest.mark.slow]
by_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: str(path.stem))


@pytest.fixture(scope="module", autouse=True)
def helm() -> None:
    require(missing())


def manifests(values: Path, *options: str) -> list[Manifest]:
    found = yaml.load_all(_rendered(values, values.read_text(), *options), yaml.CSafeLoader)
    return [manifest for manifest in found if manifest]


@cache
def _rendered(values: Path, _: str, *options: str) -> str:
    """Return the rendered chart, cached since most tests use the same; `_` is the file's current
    text.
    """
    return render("--values", str(values), *options)


def named(found: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the manifests of a kind, by name."""
    return {one["metadata"]["name"]: one for one in found if one["kind"] == kind}


def only(found: list[Manifest], kind: str) -> Mapping[str, Any]:
    """Return the spec of the only manifest of this kind."""
    (one,) = named(found, kind).values()
    spec: Mapping[str, Any] = one["spec"]
    return spec


def serving(found: list[Manifest]) -> dict[str, Manifest]:
    """Return the Deployments and StatefulSets by name."""
    return named(found, "Deployment") | named(found, "StatefulSet")


def pods(found: list[Manifest]) -> Iterator[Mapping[str, Any]]:
    """Yield each pod's metadata with its `spec`."""
    for manifest in found:
        if manifest["kind"] == "Pod":
            yield manifest
        elif "template" in manifest.get("spec", {}):
            yield manifest["spec"]["template"]


def containers(found: list[Manifest]) -> Iterator[Mapping[str, Any]]:
    for pod in pods(found):
        yield from pod["spec"].get("initContainers", [])
        yield from pod["spec"]["containers"]


@pytest.mark.in_turns(3)
@by_values
@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_valid(values: Path, version: str) -> None:
    found = manifests(values)
    for manifest in found:
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(dict(manifest), version, strict=True)
        else:
            assert manifest["apiVersion"] == CUSTOM[manifest["kind"]]
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in found]
    assert len(set(names)) == len(names)
    release = {"app.kubernetes.io/instance": "test", "app.kubernetes.io/managed-by": "Helm"}
    assert all(has(manifest, release) for manifest in found)


@by_values
def test_commands_and_stages_are_valid(
    values: Path,
) -> None:
    found = manifests(values)
    stages = {stage.name for stage in topology_of(found).stages}
    run: set[str] = set()
    for container in containers(found):
        judge_inorder(container["args"], is_whole=True)
        if container["args"][0] == "worker":
            run |= stages_in(container["args"]) or stages
    assert run == stages


def stages_in(args: list[str]) -> set[str]:
    return {word.removeprefix("--stage=") for word in args if word.startswith("--stage=")}


@by_values
def test_containers_have_minimal_rights(values: Path) -> None:
    found = manifests(values)
    for pod in pods(found):
        may = pod["spec"]["securityContext"]
        assert may["runAsNonRoot"]
        assert may["runAsUser"] == may["runAsGroup"] == may["fsGroup"] == USER
        assert may["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False
    accounts = named(found, "ServiceAccount")
    assert {pod["spec"]["serviceAccountName"] for pod in pods(found)} == accounts.keys()
    assert not any(one["automountServiceAccountToken"] for one in accounts.values())
    needs = yaml.safe_load((CHART / "values.yaml").read_text())
    for container in containers(found):
        may = container["securityContext"]
        assert may["readOnlyRootFilesystem"]
        assert not may["allowPrivilegeEscalation"]
        assert may["capabilities"] == {"drop": ["ALL"]}
        image = container["image"], container["imagePullPolicy"]
        assert image == ("inorder:latest", "IfNotPresent")
        resources = container["resources"]
        assert resources["limits"]["memory"]
        assert {"cpu", "memory"} <= resources["requests"].keys()
        if container["name"] == "worker":
            assert resources == needs["workerDefaults"]["resources"]
        if container["name"] == "sync-server":
            assert resources == needs["syncServer"]["resources"]


@by_values
def test_probes_ask_the_served_port(values: Path) -> None:
    found = manifests(values)
    assert serving(found)
    for one in serving(found).values():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert "--http=0.0.0.0:8080" in container["args"]
        assert {"name": "http", "containerPort": 8080} in container["ports"]
        asked = {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
        for name, path in asked.items():
            assert container[name]["httpGet"] == {"path": path, "port": "http"}
        start, live = container["startupProbe"], container["livenessProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] >= supervisor.START_TIMEOUT_S
        assert live["failureThreshold"] > 1
        assert live["timeoutSeconds"] > supervisor.ASK_TIMEOUT_S


def test_pods_can_use_your_account() -> None:
    found = manifests(PLAIN, "--set", "serviceAccount.create=false,serviceAccount.name=own")
    assert {pod["spec"]["serviceAccountName"] for pod in pods(found)} == {"own"}
    assert not named(found, "ServiceAccount")


@by_values
def test_settings_are_mounted_as_files(
    values: Path,
) -> None:
    given = yaml.safe_load(values.read_text())
    settings = given.get("kafka", {}).get("settings", {})
    lines = "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))
    found = manifests(values)
    wanted = {f"/etc/inorder-tls/{one}": one for one in given.get("kafka", {}).get("mounts", [])}
    maps = {name: one["data"] for name, one in named(found, "ConfigMap").items()}
    for pod in pods(found):
        (name,) = [one["configMap"]["name"] for one in pod["spec"]["volumes"] if "configMap" in one]
        assert maps[name]["topology.yaml"] == given["topology"]
        assert maps[name].get("kafka.properties", "") == lines
        for container in pod["spec"]["containers"]:
            mounted = {"name": "settings", "mountPath": "/etc/inorder", "readOnly": True}
            assert mounted in container["volumeMounts"]
            told = {"name": "INORDER_KAFKA", "value": "/etc/inorder/kafka.properties"}
            assert (told in container["env"]) == bool(lines)
        secrets = {one["name"]: one["secret"] for one in pod["spec"]["volumes"] if "secret" in one}
        assert all(secret["defaultMode"] == 0o440 for secret in secrets.values())
        for container in pod["spec"]["containers"]:
            mounts = [one for one in container["volumeMounts"] if one["name"] in secrets]
            assert all(mount["readOnly"] for mount in mounts)
            places = {one["mountPath"]: secrets[one["name"]]["secretName"] for one in mounts}
            keys = {"/etc/inorder-keys": "inorder-sync-keys"}
            assert places == wanted | (keys if container["name"] == "sync-server" else {})


def test_passwords_come_from_secrets() -> None:
    (worker, *_) = [one for one in containers(manifests(STRIMZI)) if one["name"] == "worker"]
    password = {"secretKeyRef": {"name": "inorder", "key": "password"}}
    assert {"name": "INORDER_SASL_PASSWORD", "valueFrom": password} in worker["env"]
    redis = {"secretKeyRef": {"name": "inorder-redis", "key": "url"}}
    for one in containers(manifests(STAGES)):
        told = {"name": "INORDER_REDIS", "valueFrom": redis}
        assert (told in one["env"]) == (one["name"] == "worker")


@by_values
def test_budget_allows_one_missing_pod(values: Path) -> None:
    found = manifests(values)
    budgets = {name: one["spec"] for name, one in named(found, "PodDisruptionBudget").items()}
    assert budgets.keys() == serving(found).keys()
    for name, one in serving(found).items():
        assert budgets[name] == {"maxUnavailable": 1, "selector": one["spec"]["selector"]}
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_network_policy_names_its_peers() -> None:
    found = manifests(STAGES)
    policy = only(found, "NetworkPolicy")
    chosen = policy["podSelector"]["matchLabels"]
    for one in serving(found).values():
        assert chosen.items() <= one["spec"]["template"]["metadata"]["labels"].items()
    given = yaml.safe_load(STAGES.read_text())["networkPolicy"]
    own = {"podSelector": policy["podSelector"]}
    prometheus = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    port = [{"port": 8080, "protocol": "TCP"}]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [
        {"from": [own, {"namespaceSelector": prometheus}], "ports": port},
        {"from": given["sources"], "ports": [{"port": 4123, "protocol": "UDP"}]},
    ]
    names, tests, *more = policy["egress"]
    assert names == {"ports": [{"port": 53, "protocol": each} for each in ("UDP", "TCP")]}
    assert (tests, more) == ({"to": [own], "ports": port}, given["egress"])
    plain = only(manifests(PLAIN), "NetworkPolicy")
    assert plain["policyTypes"] == ["Ingress"]
    assert plain["ingress"] == [{"from": [own], "ports": port}]
    off = manifests(PLAIN, "--set", "networkPolicy.enabled=false")
    assert not named(off, "NetworkPolicy")


def test_each_stage_has_its_own_pods() -> None:
    found = manifests(STAGES)
    deployed = named(found, "Deployment")
    assert deployed.keys() == {"test-reorder", "test-merge", "test-window"}
    for name, one in deployed.items():
        (worker,) = one["spec"]["template"]["spec"]["containers"]
        assert stages_in(worker["args"]) == {name.removeprefix("test-")}
        assert {"name": "INORDER_INSTANCE", "value": "none"} in worker["env"]
        assert not [word for word in worker["args"] if word.startswith("--session")]
        assert {"name": "state", "emptyDir": {}} in one["spec"]["template"]["spec"]["volumes"]
        assert one["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    replicas = {name: one["spec"].get("replicas") for name, one in deployed.items()}
    assert replicas == {"test-reorder": None, "test-merge": 1, "test-window": None}
    by_lag = only(found, "ScaledObject")
    bounds = by_lag["minReplicaCount"], by_lag["maxReplicaCount"]
    assert (by_lag["scaleTargetRef"]["name"], bounds) == ("test-reorder", (2, 8))
    by_cpu = only(found, "HorizontalPodAutoscaler")
    bounds = by_cpu["minReplicas"], by_cpu["maxReplicas"]
    assert (by_cpu["scaleTargetRef"]["name"], bounds) == ("test-window", (1, 4))
    (metric,) = by_cpu["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    assert by_cpu["behavior"]["scaleUp"]["stabilizationWindowSeconds"] == 60
    assert by_cpu["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 600


def test_pods_join_the_group_by_name() -> None:
    found = manifests(PLAIN, "--set-string", "topology=streams: {default: {keyed_by: stream}}")
    (workers,) = named(found, "StatefulSet").values()
    (worker,) = workers["spec"]["template"]["spec"]["containers"]
    assert "--session=20s" in worker["args"]
    (instance,) = [one for one in worker["env"] if one["name"] == "INORDER_INSTANCE"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_stateful_pods_have_volumes() -> None:
    found = manifests(PLAIN)
    workers = named(found, "StatefulSet")["test-all"]["spec"]
    assert workers["replicas"] == 2
    service = named(found, "Service")[workers["serviceName"]]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"]
    assert service["selector"] == workers["selector"]["matchLabels"]
    (claim,) = workers["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "state"
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    (worker,) = workers["template"]["spec"]["containers"]
    assert {"name": "state", "mountPath": "/var/lib/inorder"} in worker["volumeMounts"]
    assert "--state-dir=/var/lib/inorder" in worker["args"]
    assert {"name": "INORDER_INSTANCE", "value": "none"} in worker["env"], "a standby takes over"
    assert not [word for word in worker["args"] if word.startswith("--session")]
    grace_s = workers["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s >= supervisor.STOP_TIMEOUT_S + http.STOP_TIMEOUT_S
    assert workers["podManagementPolicy"] == "Parallel"
    for test in named(found, "Pod").values():
        assert test["metadata"]["annotations"]["helm.sh/hook"] == "test"
        assert test["spec"]["restartPolicy"] == "Never"
        assert len(test["spec"]["containers"]) == 1, "`helm test --logs` reads no other pods"
    explained = [one["args"][1] for one in containers(found) if one["args"][0] == "explain"]
    assert explained == ["test-all:8080"]


def test_spark_has_its_files_and_tables() -> None:
    found = manifests(STRIMZI)
    job = only(found, "SparkApplication")
    (volume,) = job["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "inorder-spark"}
    for part in ("driver", "executor"):
        mounted = {"name": volume["name"], "mountPath": "/var/lib/inorder-spark"}
        assert job[part]["volumeMounts"] == [mounted]
    assert job["image"] == "inorder-spark:latest"
    judge_inorder(["spark", *job["arguments"]], is_whole=True)
    (files,) = job["driver"]["configMaps"]
    assert files["name"] in named(found, "ConfigMap")
    assert "--topology=/etc/inorder/topology.yaml" in job["arguments"]
    assert job["mainApplicationFile"] == "local:///opt/inorder/inorder_spark.py"
    (secret,) = job["driver"]["secrets"]
    assert secret["path"] == "/etc/inorder-tls/my-cluster-cluster-ca-cert"


def test_grafana_gets_the_dashboard() -> None:
    dashboard = named(manifests(STAGES), "ConfigMap")["test-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    shipped = json.loads((CHART / "files/dashboard.json").read_text())
    assert json.loads(dashboard["data"]["inorder.json"]) == shipped


def test_shown_install_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (install,) = [each for each in commands_of(PAGE) if each.words[:2] == ("helm", "install")]
    _, _, name, chart, *options = install.words
    assert ROOT / chart == CHART
    (tmp_path / "t.yaml").write_text("streams: {default: {}}\n")
    monkeypatch.chdir(tmp_path)
    found = list(yaml.safe_load_all(render(*options, name=name)))
    assert named(found, "StatefulSet").keys() == {f"{name}-all"}
    assert {one["image"] for one in containers(found)} == {"registry.example/inorder:mine"}


def test_service_monitor_finds_ports() -> None:
    found = manifests(STAGES)
    pods = [one["spec"]["template"] for one in serving(found).values()]
    monitor = only(found, "ServiceMonitor")
    (service,) = [one for one in found if has(one, monitor["selector"]["matchLabels"])]
    assert service["kind"] == "Service"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"], "one that is not ready has the most to tell"
    (endpoint,) = monitor["endpoints"]
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
def test_monitor_has_the_pods_token(monitor: str, own: bool) -> None:
    given = ("--set-json", f"kafka.secretEnv.{token.VARIABLE}={json.dumps(TOKEN_FROM)}")
    wanted = TOKEN_FROM if own else MADE
    found = manifests(PLAIN, "--set", f"monitoring.{monitor}=true", *(given if own else ()))
    monitoring = only(found, monitor[0].upper() + monitor[1:])
    (endpoint,) = monitoring.get("endpoints") or monitoring["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": wanted}
    for name in ("worker", "explain-all"):
        (one,) = [one for one in containers(found) if one["name"] == name]
        (shown,) = [one["valueFrom"] for one in one["env"] if one["name"] == token.VARIABLE]
        assert shown == {"secretKeyRef": wanted}
    secrets = [one for one in found if one["kind"] == "Secret"]
    assert len(secrets) == (not own)
    for secret in secrets:
        made = base64.b64decode(secret["data"][MADE["key"]]).decode()
        assert token.token_in({token.VARIABLE: made}) == made


def test_annotations_need_no_token() -> None:
    found = manifests(PLAIN, "--set", "token=false,monitoring.annotations=true")
    worker = only(found, "StatefulSet")["template"]["metadata"]
    assert worker["annotations"]["prometheus.io/port"] == "8080"


@pytest.mark.parametrize("knows", [True, False])
def test_known_monitor_kinds_are_used(knows: bool) -> None:
    """Without further settings, a monitor is made if the cluster knows its kind, and the network
    policy admits Prometheus.
    """
    kinds = ("PodMonitor", "PrometheusRule")
    known = [f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in kinds if knows]
    found = manifests(PLAIN, *known, "--set", "monitoring.namespace=prom")
    assert {one["kind"] for one in found if one["kind"] in CUSTOM} == set(kinds if knows else ())
    ingress = yaml.safe_dump(only(found, "NetworkPolicy")["ingress"])
    assert ("kubernetes.io/metadata.name: prom" in ingress) == knows


def test_topics_are_made_before_workers() -> None:
    found = manifests(MTLS)
    hooks = {
        (one["kind"], one["metadata"]["name"]): one
        for one in found
        if "pre-install" in one["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    }
    notes = {kind: one["metadata"]["annotations"] for (kind, _), one in hooks.items()}
    over = "before-hook-creation,hook-succeeded"
    assert {each["helm.sh/hook-delete-policy"] for each in notes.values()} == {over}
    weights = {kind: each.get("helm.sh/hook-weight", "0") for kind, each in notes.items()}
    assert weights == {"ConfigMap": "-1", "ServiceAccount": "-1", "Job": "0"}
    spec = hooks["Job", "test-topics"]["spec"]
    job = spec["template"]["spec"]
    assert job["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 0, "the pod that failed stays, with its log"
    (waits,) = [word for word in job["containers"][0]["args"] if "--brokers-wait" in word]
    wait_ns = duration_ns("--brokers-wait", waits.partition("=")[2])
    assert wait_ns // 10**9 + 60 < spec["activeDeadlineSeconds"] < HELM_WAITS_S
    assert ("ServiceAccount", job["serviceAccountName"]) in hooks
    maps = [volume["configMap"]["name"] for volume in job["volumes"] if "configMap" in volume]
    assert all(("ConfigMap", name) in hooks for name in maps)
    assert not [one for one in containers([hooks["Job", "test-topics"]]) if "Secret" in str(one)]
    assert not [one for one in manifests(STRIMZI) if one["kind"] == "Job"], "topics.create: false"


@by_values
def test_named_folders_are_mounted(values: Path) -> None:
    found = manifests(values)
    settings = "".join({one["data"].get("kafka.properties", "") for one in found if "data" in one})
    named = re.findall(r"=(?:file://)?(/etc/\S+)/[^/\s]+$", settings, re.M)
    for one in containers(found):
        mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
        assert set(named) <= mounts, one["name"]
    for one in serving(found).values():
        spec = one["spec"]["template"]["spec"]
        claims = one["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_every_pod_has_your_additions() -> None:
    places: dict[str, Any] = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "stream", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    }
    extra: dict[str, Any] = {f"workerDefaults.{name}": each for name, each in places.items()}
    extra |= {
        "priorityClassName": "high",
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
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
    for worker in named(found, "Deployment").values():
        pod = worker["spec"]["template"]["spec"]
        assert {name: pod.get(name) for name in places} == places


def test_sync_servers_have_addresses() -> None:
    found = manifests(STAGES)
    servers = named(found, "StatefulSet")["test-sync"]["spec"]
    server, selector = servers["template"], servers["selector"]["matchLabels"]
    (spread,) = server["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == selector
    (container,) = server["spec"]["containers"]
    assert "--keys=/etc/inorder-keys/keys.toml" in container["args"]
    assert "--server=$(POD)" in container["args"]
    assert "POD" in {one["name"] for one in container["env"]}
    port = {"name": "sync", "containerPort": 4123, "protocol": "UDP"}
    assert port in container["ports"]
    assert servers["replicas"] == 3
    for name in ("test-sync-0", "test-sync-1", "test-sync-2"):
        service = named(found, "Service")[name]["spec"]
        assert (service["type"], service["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
        assert service["selector"]["statefulset.kubernetes.io/pod-name"] == name
        (port,) = service["ports"]
        assert (port["port"], port["targetPort"], port["protocol"]) == (4123, "sync", "UDP")


def topology_of(found: list[Manifest]) -> Topology:
    (text,) = {
        manifest["data"]["topology.yaml"]
        for manifest in found
        if "topology.yaml" in manifest.get("data", {})
    }
    return parse(text)


def has(manifest: Manifest, labels: Mapping[str, str]) -> bool:
    borne: Mapping[str, str] = manifest["metadata"].get("labels", {})
    return labels.items() <= borne.items()


def test_new_settings_restart_workers() -> None:
    names = set()
    for more in ((), ("--set-string", "functions.f\\.py=functions = {}")):
        found = manifests(PLAIN, *more)
        (settings,) = [one for one in found if one.get("immutable")]
        volumes = only(found, "StatefulSet")["template"]["spec"]["volumes"]
        assert {"name": settings["metadata"]["name"]} in [one.get("configMap") for one in volumes]
        names.add(settings["metadata"]["name"])
    assert len(names) == 2


def test_rules_select_their_release() -> None:
    plain = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"][0]["rules"]
    page = "https://d/docs/operate/alerts.md#"
    for name in ("plant", "other"):
        given = ("--namespace", name, "--set", "monitoring.runbooks=https://d/")
        groups = only(manifests(STAGES, *given), "PrometheusRule")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert [rule["alert"] for rule in rules] == [rule["alert"] for rule in plain]
        for rule, written in zip(rules, plain, strict=True):
            metrics = re.findall(r"\binorder_[a-z_]+", rule["expr"])
            assert rule["expr"].count(f'{{namespace="{name}",job="') == len(metrics), rule
            assert re.findall(r"\binorder_[a-z_]+", written["expr"]) == metrics
            assert rule["annotations"]["runbook_url"].startswith(page)
            assert (rule["labels"], rule.get("for")) == (written["labels"], written.get("for"))
