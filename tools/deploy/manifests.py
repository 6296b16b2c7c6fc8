"""Kubernetes manifests against the published schemas, and against what they promise."""

import pathlib
import shutil
import subprocess

import kubernetes_validate
import yaml

DIR = pathlib.Path(__file__).parent.parent.parent / "deploy/kubernetes"
# Oldest and newest release: `preStop: sleep` came with 1.30.
VERSIONS = ["1.30", kubernetes_validate.latest_version()]
# Not part of Kubernetes, so not in its schemas: service_monitor.mjs validates it.
FOREIGN = {"ServiceMonitor"}


def load():
    kustomization = yaml.safe_load((DIR / "kustomization.yaml").read_text())
    manifests = {}
    for name in kustomization["resources"]:
        for manifest in yaml.safe_load_all((DIR / name).read_text()):
            manifests[manifest["kind"]] = render(manifest, kustomization)
    return kustomization, manifests


def render(manifest, kustomization):
    """Does what Kustomize does to these files: namespace, labels and selectors."""
    (labels,) = kustomization["labels"]
    pairs = labels["pairs"]
    if manifest["kind"] != "Namespace":
        manifest["metadata"]["namespace"] = kustomization["namespace"]
    manifest["metadata"].setdefault("labels", {}).update(pairs)
    spec = manifest.get("spec", {})
    match manifest["kind"]:
        case "Service":
            spec["selector"] = pairs
        case "Deployment":
            spec["selector"] = {"matchLabels": pairs}
            spec["template"].setdefault("metadata", {})["labels"] = pairs
    return manifest


def validate(manifests):
    for version in VERSIONS:
        for kind, manifest in manifests.items():
            if kind not in FOREIGN:
                kubernetes_validate.validate(manifest, version, strict=True)
    # The validator does object.
    broken = {**manifests["Service"], "spec": {"ports": [{"port": "eighty"}]}}
    try:
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)
        raise AssertionError("a broken manifest passed")
    except kubernetes_validate.ValidationError:
        pass


def check(kustomization, manifests):
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (variables,) = [dict(literal.split("=", 1) for literal in one["literals"]) for one in kustomization["configMapGenerator"]]
    security = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and security["readOnlyRootFilesystem"]
    assert security["capabilities"]["drop"] == ["ALL"] and not security["allowPrivilegeEscalation"]
    # A pod has time to be forgotten by load balancers, and then to drain.
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > sleep + int(variables["WF_DRAIN"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    # Guaranteed, with whole cores: the static CPU manager pins such containers.
    resources = container["resources"]
    assert resources["requests"] == resources["limits"] and resources["limits"]["cpu"].isdigit()
    assert "replicas" not in manifests["Deployment"]["spec"], "the autoscaler sets it"
    scaler = manifests["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == manifests["Deployment"]["metadata"]["name"]
    (rule,) = yaml.safe_load((DIR / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    assert scaler["metrics"][0]["pods"]["metric"]["name"] == rule["name"]["as"]
    (port,) = manifests["Service"]["spec"]["ports"]
    assert manifests["ServiceMonitor"]["spec"]["endpoints"][0]["port"] == port["name"]
    assert port["targetPort"] == container["ports"][0]["name"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert set(DIR.glob("*.yaml")) == {DIR / name for name in kustomization["resources"]} | {
        DIR / "kustomization.yaml", DIR / "prometheus-adapter.yaml"}


def check_render(manifests):
    """What Kustomize makes of the files is what this test makes of them."""
    if not shutil.which("kubectl"):
        print("manifests: not rendered by Kustomize: there is no kubectl")
        return
    rendered = subprocess.run(["kubectl", "kustomize", DIR], check=True, capture_output=True, text=True).stdout
    rendered = {one["kind"]: one for one in yaml.safe_load_all(rendered)}
    validate({kind: one for kind, one in rendered.items()})
    selectors = {kind: one["spec"].get("selector") for kind, one in manifests.items() if "spec" in one}
    assert selectors == {kind: rendered[kind]["spec"].get("selector") for kind in selectors}
    (container,) = rendered["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"][0]["configMapRef"]["name"] == rendered["ConfigMap"]["metadata"]["name"]


kustomization, manifests = load()
validate(manifests)
check(kustomization, manifests)
check_render(manifests)
print(f"manifests: {len(manifests)} are valid for Kubernetes {' and '.join(VERSIONS)}")
