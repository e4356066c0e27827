"""Writes the settings of the programs of a node, one file each, into the node's folder.

The node has its own network namespace, so its addresses meet no others of the machine. It has no
way out of it: pods reach the node and each other.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any, Final

ADDRESS: Final = "10.210.0.1"
"""The node's address, on a bridge of its own. DNS and the API server listen there."""
PODS: Final = "10.211.0.0/24"
SERVICES: Final = "10.96.0.0/16"
NAME: Final = "node"
PROXY: Final = "proxy"
"""The name by which the API server asks servers of metrics."""
PAUSE: Final = "localhost/pause:own"
"""The image of the first container of each pod."""
API: Final = f"https://{ADDRESS}:6443"
PLUGINS: Final = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins are."""


def write_all(folder: Path) -> None:
    """Write all files; the folders that the programs want are made too."""
    for each in ("etcd", "pki", "cni/conf", "containerd", "kubelet", "volumes"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig(API, token)))
    (folder / "kubelet.yaml").write_text(json.dumps(_kubelet(folder)))
    (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
    (folder / "cni" / "conf" / "10-pods.conflist").write_text(json.dumps(_network(folder)))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, plugins=PLUGINS))
    (folder / "Corefile").write_text(_COREFILE.format(folder=folder))


def proxy_options(pki: Path) -> list[str]:
    """Return the options by which the API server passes requests on to servers of metrics."""
    options = {
        "proxy-client-cert-file": pki / "proxy.crt",
        "proxy-client-key-file": pki / "proxy.key",
        "requestheader-client-ca-file": pki / "proxy.crt",
        "requestheader-allowed-names": PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def volumes(folder: Path, count: int) -> str:
    """Return the manifests of local volumes, and of their class of storage, as JSON."""
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "local",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NAME]}
    made = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"local-{number}"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "local",
                "local": {"path": str(folder / "volumes" / str(number))},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
        for number in range(count)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [storage, *made]})


def kubeconfig(address: str, token: str) -> dict[str, Any]:
    """Return the file with which clients reach an API server, with the rights of the token."""
    cluster = {"server": address, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "own", "cluster": cluster}],
        "users": [{"name": "own", "user": {"token": token}}],
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "current-context": "own",
    }


def _kubelet(folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        # A kubelet deletes the logs of pods that it does not know.
        "podLogsDir": f"{folder}/logs",
        "volumePluginDir": f"{folder}/plugins",
        "failSwapOn": False,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{folder}/containerd/containerd.sock",
        "clusterDNS": [ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        # The default is lower, which not every root may set.
        "oomScoreAdj": 0,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",
    }


def _network(folder: Path) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": f"{folder}/cni/addresses",
    }
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    plugins = [{**bridge, "ipMasq": False, "ipam": addresses}, ports]
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}


_CONTAINERD: Final = f"""\
version = 2
root = "{{folder}}/containerd/root"
state = "{{folder}}/containerd/state"
oom_score = 0
[grpc]
  address = "{{folder}}/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{{folder}}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{plugins}}"
    conf_dir = "{{folder}}/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
_COREFILE: Final = """\
.:53 {{
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {folder}/kubeconfig own
        pods insecure
    }}
}}
"""
