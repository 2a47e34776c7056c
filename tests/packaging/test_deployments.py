"""Files under deploy/: the image, the resources of Kubernetes and the systemd unit agree with each other and with headrace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from pyspark.sql import SparkSession
from tests.plugins.serve.client import request, serve_run
from tests.support.dist import ROOT, SOURCES
from tests.support.manifests import find_schema_errors, list_secret_variables, merge

from headrace import DataError, Pipeline, PluginError, __version__
from headrace.cli.main import cli
from headrace.cluster.submission import Submission
from headrace.errors import ConfigError
from headrace.pipeline import check_before_session

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNIT = DEPLOY / "systemd/headrace@.service"
TOKEN = "a-token-of-20-letters"
PIPELINES = [KUBERNETES / name / "pipeline.yaml" for name in ("base", "example")]
#: Fields of the operator's DriverSpec and Port (sparkoperator.k8s.io/v1beta2) that the patch uses.
DRIVER_FIELDS = {"labels", "ports", "env", "template"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def load_pod() -> dict[str, Any]:
    spec: dict[str, Any] = load(KUBERNETES / "base/statefulset.yaml")["spec"]["template"]["spec"]
    return spec


def load_container() -> dict[str, Any]:
    (container,) = load_pod()["containers"]
    return dict(container)


def load_driver_patch() -> dict[str, Any]:
    return dict(load(DEPLOY / "spark-operator/driver.yaml"))


def list_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile in order, with their arguments on one line."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line)]


def find_arguments(instruction: str) -> list[str]:
    return [rest for name, rest in list_instructions() if name == instruction]


def read_environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", find_arguments("ENV")[0]))


class UnitParser(ConfigParser):
    """Parser of systemd's files, whose names are case-sensitive and may repeat."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, strict=False, delimiters=("=",))

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def read_unit() -> ConfigParser:
    unit = UnitParser()
    unit.read(UNIT, encoding="utf-8")
    return unit


def parse_arguments(arguments: list[str]) -> dict[str, Any]:
    """Return the parameters of ``headrace COMMAND …``; click raises an error for unknown ones."""
    with click.Context(cli) as context:
        command = cli.get_command(context, arguments[0])
        assert command is not None, arguments
        return dict(command.make_context(arguments[0], arguments[1:], parent=context).params)


def load_pipeline(file: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Return the pipeline of a file, with the variables and the arguments of the pod."""
    for name, _, _ in list_secret_variables(load_container()):
        monkeypatch.setenv(name, TOKEN)
    serve = parse_arguments(load_container()["args"])["serve"]
    return Pipeline.from_file(file, {"serve": {"address": serve}})


# --- Kubernetes


def test_every_yaml_file_parses() -> None:
    files = sorted(DEPLOY.rglob("*.yaml"))
    assert len(files) > 8
    for file in files:
        assert isinstance(load(file), dict), file


@pytest.mark.parametrize("kind", ["StatefulSet", "Service"])
def test_resources_match_the_schemas_of_kubernetes(kind: str) -> None:
    resource = load(KUBERNETES / f"base/{kind.lower()}.yaml")
    assert resource["kind"] == kind
    assert find_schema_errors(kind, resource) == []


def test_schemas_reject_unknown_and_missing_keys() -> None:
    resource = load(KUBERNETES / "base/statefulset.yaml")
    pod = resource["spec"]["template"]["spec"]
    pod["terminationGracePeriod"] = 300
    del pod["containers"][0]["name"]
    errors = find_schema_errors("StatefulSet", resource)
    assert len(errors) == 2
    assert "'terminationGracePeriod' was unexpected" in "".join(errors)
    assert "'name' is a required property" in "".join(errors)


def test_kustomizations_name_existing_files_and_this_version() -> None:
    for file in sorted(DEPLOY.rglob("kustomization.yaml")):
        data = load(file)
        for name in (*data.get("resources", ()), *data.get("components", ())):
            # `headrace package` writes this one.
            assert name == "spark-application.yaml" or (file.parent / name).exists(), (file, name)
        for item in data.get("configMapGenerator", ()):
            assert all((file.parent / name).is_file() for name in item["files"])
        assert all(image["newTag"] == __version__ for image in data.get("images", ()))
    for file in (DEPLOY / "Dockerfile", ROOT / "docs/kubernetes.md"):
        tags = re.findall(r"\bheadrace:(\d+\.\d+\.\d+)", file.read_text(encoding="utf-8"))
        assert set(tags) == {__version__}, file


def test_labels_volumes_and_the_config_map_are_connected() -> None:
    stateful, service = (load(KUBERNETES / f"base/{name}.yaml") for name in ("statefulset", "service"))
    monitor, base = load(KUBERNETES / "monitoring/servicemonitor.yaml"), load(KUBERNETES / "base/kustomization.yaml")
    spec, pod, container = stateful["spec"], load_pod(), load_container()
    labels = spec["template"]["metadata"]["labels"]
    for selector in (spec["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector == labels
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert spec["serviceName"] == service["metadata"]["name"]
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]} | claims
    (config,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    (generated,) = base["configMapGenerator"]
    assert config == generated["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert parse_arguments(container["args"])["file"] == f"{mounts['pipeline']}/{generated['files'][0]}"
    assert container["image"] == base["images"][0]["name"]


def test_ports_of_probes_service_and_image_are_the_served_port() -> None:
    container, driver = load_container(), load_driver_patch()["spec"]
    (port,) = container["ports"]
    (service,) = load(KUBERNETES / "base/service.yaml")["spec"]["ports"]
    (endpoint,) = load(KUBERNETES / "monitoring/servicemonitor.yaml")["spec"]["endpoints"]
    assert endpoint["port"] == service["name"]
    assert service["targetPort"] == port["name"]
    assert {probe["httpGet"]["port"] for probe in list_probes(container).values()} == {port["name"]}
    served = {service["port"], port["containerPort"], *map(int, find_arguments("EXPOSE"))}
    served |= {driver["driver"]["ports"][0]["containerPort"]}
    for arguments in (container["args"], ["run", "pipeline.yaml", *driver["arguments"]]):
        served.add(int(parse_arguments(arguments)["serve"].rpartition(":")[2]))
    assert len(served) == 1


def list_probes(container: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in container.items() if key.endswith("Probe")}


def test_probes_and_metrics_answer_as_the_resources_expect() -> None:
    """Kubernetes sends the address of the pod as the host, and no login. Prometheus sends the token."""
    probes = list_probes(load_container())
    assert probes.keys() == {"startupProbe", "livenessProbe", "readinessProbe"}
    (endpoint,) = load(KUBERNETES / "monitoring/servicemonitor.yaml")["spec"]["endpoints"]
    with serve_run(address="0.0.0.0:0", token=TOKEN) as run:
        for probe in probes.values():
            assert run.get(probe["httpGet"]["path"], Host="10.1.2.3:8080").text == "ok\n"
        assert request(run.serve.port, endpoint["path"]).status == 401
        assert request(run.serve.port, endpoint["path"], Authorization=f"Bearer {TOKEN}").status == 200


def test_secrets_are_references_only() -> None:
    variables = list(list_secret_variables(load_container()))
    (driver,) = [load_driver_patch()["spec"]["driver"]]
    assert list(list_secret_variables(driver)) == variables
    names = {name for name, _, _ in variables}
    for file in PIPELINES:
        assert set(re.findall(r"\$\{env:(\w+)\}", file.read_text(encoding="utf-8"))) == names
    (endpoint,) = load(KUBERNETES / "monitoring/servicemonitor.yaml")["spec"]["endpoints"]
    credentials = endpoint["authorization"]["credentials"]
    assert ("SERVE_TOKEN", credentials["name"], credentials["key"]) in variables
    assert "kind: Secret" not in "".join(file.read_text(encoding="utf-8") for file in DEPLOY.rglob("*.yaml"))


@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.parent.name)
def test_pipeline_files_of_config_maps_load(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = load_pipeline(file, monkeypatch)
    check_before_session(pipeline)
    conf, resources = pipeline.plan.spark_conf, load_container()["resources"]
    assert conf["spark.master"] == f"local[{resources['requests']['cpu']}]"
    heap, limit = conf["spark.driver.memory"], resources["limits"]["memory"]
    assert int(heap.removesuffix("g")) * 2 == int(limit.removesuffix("Gi"))
    assert resources["requests"]["memory"] == limit


@pytest.mark.spark
@pytest.mark.one_spark
@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.parent.name)
def test_pipeline_files_of_config_maps_pass_the_check(
    file: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "pipeline.yaml"
    text = file.read_text(encoding="utf-8")
    for place in ("/var/lib/headrace/", "s3a://"):
        text = text.replace(place, f"{tmp_path}/")
    copy.write_text(text, encoding="utf-8")
    items = load_pipeline(copy, monkeypatch).check(spark)
    assert [item.found for item in items if item.error] == []


def test_checkpoint_is_on_the_volume_unless_it_is_on_s3() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in load_container()["volumeMounts"]}
    base, example = (load(file)["checkpoint"] for file in PIPELINES)
    assert base.startswith(f"{mounts['state']}/")
    assert example.startswith("s3a://")
    assert "../s3-checkpoint" in load(KUBERNETES / "example/kustomization.yaml")["components"]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
@pytest.mark.parametrize("folder", ["base", "example"])
def test_rendered_resources_match_the_schemas_of_kubernetes(folder: str) -> None:
    command = ["kubectl", "kustomize", str(KUBERNETES / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    resources = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    assert find_schema_errors("Service", resources["Service"]) == []
    stateful = resources["StatefulSet"]
    assert find_schema_errors("StatefulSet", stateful) == []
    pod = stateful["spec"]["template"]["spec"]
    names = {volume["name"] for volume in pod["volumes"]}
    claims = {claim["metadata"]["name"] for claim in stateful["spec"].get("volumeClaimTemplates", ())}
    assert {"state"} == (claims if folder == "base" else names - {"pipeline", "tmp"})
    (config,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    assert config == resources["ConfigMap"]["metadata"]["name"]
    expected = (KUBERNETES / folder / "pipeline.yaml").read_text(encoding="utf-8")
    assert resources["ConfigMap"]["data"]["pipeline.yaml"] == expected
    assert ("ServiceMonitor" in resources) == (folder == "example")


# --- Spark operator


def test_driver_of_the_operator_has_the_probes_of_the_stateful_set() -> None:
    made = Submission(["one.jar"], None, {"spark.executor.instances": "2"})
    application = yaml.safe_load(made.format_application("s3a://lake/packages/shop", "shop", "3.5.9"))
    patch = load_driver_patch()
    assert (patch["apiVersion"], patch["kind"]) == (application["apiVersion"], application["kind"])
    spec = merge(application, patch)["spec"]
    assert spec["sparkConf"] == application["spec"]["sparkConf"]
    driver = spec["driver"]
    assert driver.keys() <= DRIVER_FIELDS
    assert all(port.keys() == {"name", "protocol", "containerPort"} for port in driver["ports"])
    for variable in driver["env"]:
        assert find_schema_errors("EnvVar", variable) == []
    assert find_schema_errors("PodTemplateSpec", driver["template"]) == []
    (container,) = driver["template"]["spec"]["containers"]
    expected = list_probes(load_container())
    for probe in expected.values():
        probe["httpGet"]["port"] = driver["ports"][0]["containerPort"]
    assert list_probes(container) == expected


# --- image


def test_image_has_the_tested_spark_java_and_python() -> None:
    installed, commands = " ".join(find_arguments("RUN")), find_arguments("FROM")
    # The Debian release with Python 3.11 and Java 17.
    assert {command.split()[0] for command in commands} == {"debian:bookworm-slim"}
    assert "openjdk-17-jre-headless" in installed
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert set(re.findall(r"pyspark==[\d.]+", installed)) == set(re.findall(r"pyspark==3\.5[\d.]+", tox))
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", installed)
    assert set(extras.split(",")) <= set(setup["options.extras_require"])


def test_image_is_built_from_the_sources_of_a_release() -> None:
    copied = [word for rest in find_arguments("COPY") if "--from" not in rest for word in rest.split()[:-1]]
    assert sorted(copied) == sorted(SOURCES)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(SOURCES)
    assert "*" in ignored


def test_image_downloads_jars_into_the_cache_of_its_runs() -> None:
    cache = read_environment()["HEADRACE_CACHE"]
    (download,) = [run for run in find_arguments("RUN") if "headrace jars" in run]
    variable, program, *arguments = download.split()
    assert variable == f"HEADRACE_CACHE={cache}"
    assert program == "/opt/headrace/bin/headrace"
    assert parse_arguments(arguments)["download"] is True
    mounts = [mount["mountPath"] for mount in load_container()["volumeMounts"]]
    assert not any(Path(cache).is_relative_to(mount) for mount in mounts), "a volume would hide the jars"


def test_image_runs_headrace_as_the_user_of_the_pod() -> None:
    security = load_pod()["securityContext"]
    (user,), (entry,) = find_arguments("USER"), find_arguments("ENTRYPOINT")
    assert user == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert any(f"useradd --uid {security['runAsUser']} " in run for run in find_arguments("RUN"))
    assert security["runAsUser"] > 0
    assert entry == '["headrace"]'
    order = [name for name, _ in list_instructions()]
    assert order.index("USER") > max(at for at, name in enumerate(order) if name in ("RUN", "COPY"))
    mounts = {mount["name"]: mount["mountPath"] for mount in load_container()["volumeMounts"]}
    # Spark writes into the working directory, and the root of the container is read-only.
    assert find_arguments("WORKDIR")[-1] == mounts["state"]


def test_image_has_no_secret() -> None:
    assert find_arguments("ARG") == []
    assert read_environment().keys() == {"PATH", "HEADRACE_CACHE", "HEADRACE_CLASS_ARCHIVES"}


def test_variables_of_the_image_and_the_unit_exist() -> None:
    names = {*read_environment(), *re.findall(r"^Environment=(\w+)=", UNIT.read_text(encoding="utf-8"), re.MULTILINE)}
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "core/headrace").rglob("*.py"))
    assert [name for name in names if name.startswith("HEADRACE_") and f'"{name}"' not in code] == []


@pytest.mark.parametrize("active", [True, False])
def test_health_check_of_the_image_reports_the_run(*, active: bool) -> None:
    (check,) = find_arguments("HEALTHCHECK")
    program, flag, code = yaml.safe_load(check.partition("CMD ")[2])
    assert (program, flag) == ("python3", "-c")
    with serve_run(token=TOKEN) as run:
        if not active:
            run.status = type(run.status)(False, "stopped", None, None)
        port = str(run.serve.port)
        assert "8080" in code
        done = subprocess.run([sys.executable, "-c", code.replace("8080", port)], check=False)
    assert done.returncode == (0 if active else 1)


# --- systemd


def test_unit_runs_an_existing_command_and_restarts_as_the_exit_codes_require() -> None:
    service = read_unit()["Service"]
    program, *arguments = service["ExecStart"].split()
    assert Path(program).name == "headrace"
    assert parse_arguments(arguments)["file"] == "/etc/headrace/%i.yaml"
    codes = [str(error.exit_code) for error in (ConfigError, PluginError, DataError)]
    assert service["RestartPreventExitStatus"].split() == codes
    assert service["Restart"] == "on-failure"


def test_grace_periods_are_equal() -> None:
    assert int(read_unit()["Service"]["TimeoutStopSec"]) == load_pod()["terminationGracePeriodSeconds"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Its program and its user exist on this machine."""
    text = UNIT.read_text(encoding="utf-8").replace("/opt/headrace/bin/headrace", "/bin/true")
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^User=.*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
