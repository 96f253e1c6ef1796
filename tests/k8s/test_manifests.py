"""The kustomizations are valid and agree with the programs: offline, no cluster needed."""

import json
import re
import subprocess

import kubernetes_validate
import pytest

from manifests import BUILD_DIR, KUSTOMIZATIONS, ROOT, of_kind, render, run_tool

KUBERNETES_VERSIONS = ["1.27", "1.31", kubernetes_validate.latest_version()]
ROLES = ["router", "prefill", "decode"]


@pytest.fixture(scope="module")
def base():
    return render("base")


def container_of(base, role):
    (container,) = of_kind(base, "Deployment")[f"anchorage-{role}"]["spec"]["template"]["spec"][
        "containers"]
    return container


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS)
def test_every_object_passes_the_strict_schema(kustomization, version):
    documents = render(kustomization)
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_strict_schema_refuses_a_misspelt_field(base):
    deployment = json.loads(json.dumps(of_kind(base, "Deployment")["anchorage-router"]))
    deployment["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES_VERSIONS[-1], strict=True)


def test_there_are_three_deployments_each_with_a_headless_service(base):
    assert set(of_kind(base, "Deployment")) == {f"anchorage-{role}" for role in ROLES}
    services = of_kind(base, "Service")
    for role in ROLES:
        assert services[f"anchorage-{role}"]["spec"]["clusterIP"] == "None"


def test_selectors_find_their_pods(base):
    templates = [deployment["spec"]["template"] for deployment in of_kind(base, "Deployment").values()]
    selectors = [(d["kind"], d["metadata"]["name"],
                  d["spec"]["selector"] if d["kind"] == "Service"
                  else d["spec"].get("selector", d["spec"].get("podSelector"))["matchLabels"])
                 for d in base if d["kind"] != "ConfigMap"]
    for kind, name, selector in selectors:
        matched = [t for t in templates if selector.items() <= t["metadata"]["labels"].items()]
        assert len(matched) == 1, f"{kind} {name} selects {len(matched)} deployments"


def test_named_ports_exist(base):
    for role in ROLES:
        container = container_of(base, role)
        names = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in names
        policy = of_kind(base, "NetworkPolicy")[f"anchorage-{role}"]
        for rule in policy["spec"]["ingress"]:
            for port in rule["ports"]:
                assert isinstance(port["port"], int) or port["port"] in names


def test_the_network_policy_opens_the_port_range_that_ucx_is_told(base):
    (worker,) = [m for name, m in of_kind(base, "ConfigMap").items()
                 if name.startswith("anchorage-worker")]
    low, high = map(int, worker["data"]["UCX_TCP_PORT_RANGE"].split("-"))
    for role in ("prefill", "decode"):
        policy = of_kind(base, "NetworkPolicy")[f"anchorage-{role}"]
        opened = [(port["port"], port["endPort"]) for rule in policy["spec"]["ingress"]
                  for port in rule["ports"] if "endPort" in port]
        assert opened == [(low, high)]


def settings_of(base, role):
    """The container's environment as far as it stands in the manifests; later sources win."""
    container, maps, settings = container_of(base, role), of_kind(base, "ConfigMap"), {}
    for source in container["envFrom"]:
        settings.update(maps[source["configMapRef"]["name"]]["data"])
    settings.update({entry["name"]: entry.get("value") for entry in container.get("env", [])})
    return settings


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_is_a_flag_of_the_program(base, role):
    program = BUILD_DIR / "bin" / f"anchorage-{role}"
    usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    flags = {"ANCHORAGE_" + flag.replace("-", "_").upper()
             for flag in re.findall(r"^  --([\w-]+) ", usage, re.MULTILINE)}
    settings = {name for name in settings_of(base, role) if name.startswith("ANCHORAGE_")}
    assert settings and settings <= flags


def test_pods_run_without_privileges(base):
    for role in ROLES:
        pod = of_kind(base, "Deployment")[f"anchorage-{role}"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        context = container_of(base, role)["securityContext"]
        assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                           "capabilities": {"drop": ["ALL"]}}


def test_a_pod_has_time_to_drain(base):
    for role in ROLES:
        pod = of_kind(base, "Deployment")[f"anchorage-{role}"]["spec"]["template"]["spec"]
        sleep = int(container_of(base, role)["lifecycle"]["preStop"]["exec"]["command"][1])
        number, unit = re.fullmatch(r"(\d+)([ms])",
                                    settings_of(base, role)["ANCHORAGE_DRAIN_TIMEOUT"]).groups()
        drain = int(number) * {"s": 1, "m": 60}[unit]
        assert pod["terminationGracePeriodSeconds"] >= sleep + drain + 10


@pytest.mark.parametrize("program", [*(f"anchorage-{role}" for role in ROLES), "anchorage"])
def test_the_image_has_the_libraries_of_each_program(program):
    listed = {line.split()[1] for line in (ROOT / "scripts" / "packages.txt").read_text().splitlines()
              if line.startswith("run ")}
    in_every_image = {"libc6", "libgcc-s1", "libstdc++6"}
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run_tool("readelf", "-d", BUILD_DIR / "bin" / program))
    resolved = dict(re.findall(r"(\S+) => (/\S+)", run_tool("ldd", BUILD_DIR / "bin" / program)))
    for library in needed:
        if library not in resolved:
            continue  # the loader itself
        # A library under /lib is known to dpkg by either path of the merged /usr.
        path = resolved[library].removeprefix("/usr")
        owners = subprocess.run(["dpkg", "-S", path, "/usr" + path], capture_output=True,
                                text=True).stdout
        packages = {line.split(":")[0] for line in owners.splitlines()}
        assert packages & (listed | in_every_image), f"{program} needs {library} of {packages}"
