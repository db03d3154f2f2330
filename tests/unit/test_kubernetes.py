"""The Kubernetes manifests, built by kustomize: schema, queues, probes and privileges."""

from __future__ import annotations

import copy
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import kubernetes_validate
import pytest

from service.http.middleware.origins import allowed_hosts
from store.jobs import Queue
from store.settings import setting_rows

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "kubernetes"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kubernetes_check", FOLDER / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = _load()
Object = dict[str, Any]


@pytest.fixture(scope="module", params=check.OVERLAYS, ids=lambda overlay: overlay.name)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return build(request.param)


def build(overlay: Path) -> list[Object]:
    try:
        built: list[Object] = check.built(overlay)
    except check.NoKustomizeError as error:
        pytest.skip(str(error))
    return built


def of_kind(objects: list[Object], *kinds: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] in kinds}


def pod(workload: Object) -> Object:
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def container(workload: Object) -> Object:
    [only] = pod(workload)["containers"]
    found: Object = only
    return found


def test_every_object_follows_the_schema(objects: list[Object]) -> None:
    for one in objects:
        kubernetes_validate.validate(one, check.SCHEMA, strict=True)
    misspelt = copy.deepcopy(of_kind(objects, "Deployment")["d4explain-api"])
    container(misspelt)["readinesProbe"] = container(misspelt).pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(misspelt, check.SCHEMA, strict=True)


def test_every_queue_has_a_worker_of_its_own(objects: list[Object]) -> None:
    workers = [
        container(one)["args"]
        for name, one in of_kind(objects, "Deployment").items()
        if "-worker-" in name
    ]
    assert sorted(workers) == sorted(["--queues", queue.value] for queue in Queue)


def test_probes_send_a_host_that_the_api_knows(objects: list[Object]) -> None:
    api = container(of_kind(objects, "Deployment")["d4explain-api"])
    environment = {entry["name"]: entry["value"] for entry in api["env"]}
    hosts = allowed_hosts(environment["D4_ALLOWED_HOSTS"], environment["D4_HOST"])
    [service] = of_kind(objects, "Service")
    assert service in hosts
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        [header] = api[name]["httpGet"]["httpHeaders"]
        assert header["name"] == "Host"
        assert header["value"] in hosts


def test_pods_have_no_privileges_and_limited_memory(objects: list[Object]) -> None:
    for workload in of_kind(objects, "Deployment", "Job").values():
        spec, only = pod(workload), container(workload)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert only["resources"]["limits"]["memory"]
        assert all("sizeLimit" in one["emptyDir"] for one in spec["volumes"])


def test_all_processes_have_the_same_known_settings(objects: list[Object]) -> None:
    known = {row.env for row in setting_rows()} | {"AWS_DEFAULT_REGION", "TMPDIR", "D4_API_KEY"}
    [settings] = of_kind(objects, "ConfigMap").values()
    assert set(settings["data"]) <= known
    for workload in of_kind(objects, "Deployment", "Job").values():
        only = container(workload)
        assert only["envFrom"] == [
            {"configMapRef": {"name": settings["metadata"]["name"]}},
            {"secretRef": {"name": "d4explain-secrets"}},
        ]
        assert {entry["name"] for entry in only.get("env", ())} <= known
    assert not of_kind(objects, "Secret")  # nobody should commit one


def test_the_migration_runs_once_with_the_image_of_the_api(objects: list[Object]) -> None:
    [job] = of_kind(objects, "Job").values()
    api = of_kind(objects, "Deployment")["d4explain-api"]
    [migrate] = pod(job)["initContainers"]
    assert migrate["args"] == ["python", "-m", "store", "migrate"]
    assert container(job)["args"][:4] == ["python", "-m", "store", "keys"]
    for step in (migrate, container(job)):
        assert step["image"] == container(api)["image"]
        assert step["securityContext"] == container(api)["securityContext"]
        assert step["envFrom"] == container(api)["envFrom"]


def test_selectors_name_pods_that_exist(objects: list[Object]) -> None:
    pods = [
        workload["spec"]["template"]["metadata"]["labels"]
        for workload in of_kind(objects, "Deployment", "Job").values()
    ]

    def selected(selector: dict[str, str]) -> int:
        return sum(selector.items() <= labels.items() for labels in pods)

    for policy in of_kind(objects, "NetworkPolicy").values():
        assert selected(policy["spec"]["podSelector"]["matchLabels"])
    for budget in of_kind(objects, "PodDisruptionBudget").values():
        assert selected(budget["spec"]["selector"]["matchLabels"]) == 1
    for service in of_kind(objects, "Service").values():
        assert selected(service["spec"]["selector"]) == 1
    for scaler in of_kind(objects, "HorizontalPodAutoscaler").values():
        target = scaler["spec"]["scaleTargetRef"]
        assert target["name"] in of_kind(objects, target["kind"])
        # A number here would set the pods back at each `apply`.
        assert "replicas" not in of_kind(objects, target["kind"])[target["name"]]["spec"]


def test_only_trainings_and_explanations_get_gpus() -> None:
    deployments = of_kind(build(FOLDER / "overlays/gpu"), "Deployment")
    for name, workload in deployments.items():
        has_gpu = container(workload)["resources"]["limits"].get("nvidia.com/gpu") == "1"
        environment = {one["name"]: one.get("value") for one in container(workload).get("env", ())}
        assert has_gpu is name.endswith(("-train", "-sample"))
        assert (environment.get("D4_DEVICE") == "cuda:0") is has_gpu
        assert ("nodeSelector" in pod(workload)) is has_gpu
    for workload in of_kind(build(FOLDER / "overlays/cpu"), "Deployment").values():
        assert set(container(workload)["resources"]["limits"]) == {"memory"}


def test_a_shared_volume_replaces_the_bucket_in_every_pod(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    overlay = tmp_path / "kubernetes/overlays/cpu"
    with (overlay / "kustomization.yaml").open("a") as file:
        file.write("components: [../../components/shared-volume]\n")
    objects = build(overlay)
    for one in objects:
        kubernetes_validate.validate(one, check.SCHEMA, strict=True)
    [settings] = of_kind(objects, "ConfigMap").values()
    path = settings["data"]["D4_ARTIFACTS"].removeprefix("file://")
    for workload in of_kind(objects, "Deployment").values():
        assert {"name": "artifacts", "mountPath": path} in container(workload)["volumeMounts"]
        [volume] = [one for one in pod(workload)["volumes"] if one["name"] == "artifacts"]
        claim = volume["persistentVolumeClaim"]["claimName"]
        assert claim in of_kind(objects, "PersistentVolumeClaim")
