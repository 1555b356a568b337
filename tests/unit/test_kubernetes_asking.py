"""What is asked of a cluster, as whom, and what is made of its refusals."""

import base64
import json
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from outlast.clock import ManualClock
from outlast.errors import BoxError, SandboxUnsupported
from outlast.sandbox import Limits, Mount, Spec
from outlast.workspaces.kubernetes import Claim, Kubernetes
from outlast.workspaces.kubernetes.access import access_of
from outlast.workspaces.kubernetes.pods import kept_claim, label_value, pod, pod_name, policy
from tests.servers.api_rules import judged
from tests.servers.kubernetes_api import Cluster, kubeconfig, kubernetes_api
from tests.servers.pod_security import violations

SECRET = "sk-do-not-show-me"
SPEC = Spec(
    "ticket-1",
    env={"OUTLAST_TOKEN": SECRET},
    limits=Limits(memory_bytes=1 << 28, processes=100, cpus=1.5),
    labels={"tenant": "blue/green"},
)


@asynccontextmanager
async def cluster() -> AsyncGenerator[tuple[Cluster, Kubernetes]]:
    with TemporaryDirectory() as folder:
        async with kubernetes_api(Path(folder)) as made:
            config = kubeconfig(made, Path(folder) / "config")
            yield made, Kubernetes(kubeconfig=str(config), start_s=3)


async def attach(provider: Kubernetes, spec: Spec = SPEC) -> None:
    async with provider.attach(spec, 1):
        pass


@pytest.mark.parametrize("claim", [Claim(), Claim(kept=True, size="1Gi", storage_class="fast")])
def test_what_is_sent_is_what_the_api_describes_and_restricted(claim: Claim) -> None:
    made = pod(SPEC, "any:1", ["python3"], claim, lives_s=3600)
    judged("pods", made)
    judged("persistentvolumeclaims", kept_claim(SPEC, claim))
    judged("networkpolicies", policy())
    assert violations(made) == []


def test_a_pod_is_stricter_than_restricted() -> None:
    made = pod(SPEC, "any:1", ["python3"], Claim(), lives_s=0)
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["restartPolicy"] == "Never"
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert container["resources"]["limits"] == {"memory": str(1 << 28), "cpu": "1500m"}
    assert "env" not in container
    assert "activeDeadlineSeconds" not in spec


def test_a_policy_lets_nothing_in_and_nothing_out() -> None:
    made = policy()["spec"]
    assert made["policyTypes"] == ["Ingress", "Egress"]
    assert not made.keys() & {"ingress", "egress"}
    pods = pod(SPEC, "any:1", [], Claim(), 0)["metadata"]["labels"]
    assert made["podSelector"]["matchLabels"].items() <= pods.items()


def test_no_two_names_have_one_pod_and_each_is_a_name() -> None:
    names = ["a", "A", "a.b", "a-b", "a-", "x" * 200, ""]
    assert len({pod_name(name) for name in names}) == len(names)
    for name in names:
        assert len(pod_name(name)) <= 63
        assert pod_name(name) == pod_name(name).lower()


def test_a_value_that_no_label_may_have_is_stood_for() -> None:
    assert label_value("blue") == "blue"
    assert label_value("blue/green") != "blue/green"
    assert len(label_value("x" * 100)) <= 63


@pytest.mark.crash
async def test_no_secret_arrives_at_the_cluster_and_all_is_asked_for_in_order() -> None:
    async with cluster() as (made, provider):
        await attach(provider)
        kinds = [
            (method, path.rsplit("/", 2)[1 if method == "PATCH" else 2]) for method, path, _ in made.asked
        ]
        assert kinds.index(("PATCH", "networkpolicies")) < kinds.index(("POST", "pods"))
        assert SECRET not in json.dumps(made.asked)
        assert (await provider.list({})) == []


@pytest.mark.crash
async def test_a_kept_claim_goes_with_destroy_alone() -> None:
    async with cluster() as (made, provider):
        keeping = Kubernetes(kubeconfig=str(made.folder / "config"), claim=Claim(kept=True))
        async with keeping.attach(replace(SPEC, idle_s=60), 1) as box:
            await box.write("kept.txt", b"kept")
        await provider.destroy(box.ref)
        async with keeping.attach(replace(SPEC, idle_s=60), 2) as again:
            assert again.lived is False
            assert await again.read("kept.txt") == b"kept"
            assert [one.labels for one in await keeping.list({"tenant": "blue/green"})] == [SPEC.labels]
        await keeping.destroy(again.ref)
        assert ("persistentvolumeclaims", pod_name(SPEC.name)) not in made.things


@pytest.mark.crash
async def test_a_server_without_the_newest_protocol_is_spoken_to_as_well() -> None:
    async with cluster() as (made, provider):
        made.protocols = ("v4.channel.k8s.io",)
        async with provider.attach(SPEC, 1) as box:
            await box.write("a.txt", b"a")
            assert await box.read("a.txt") == b"a"


@pytest.mark.crash
async def test_what_cannot_be_started_is_said_with_the_way_out() -> None:
    async with cluster() as (made, provider):
        with pytest.raises(BoxError, match=r"ImagePullBackOff: .*Name an image that the nodes can pull"):
            await attach(provider, replace(SPEC, image="nowhere:1"))
        made.images["bare:1"] = str(made.folder)
        with pytest.raises(BoxError, match=r"RunContainerError: .*needs Python 3.9 or newer as `python3`"):
            await attach(provider, replace(SPEC, image="bare:1"))
        made.no_node = "0/3 nodes are available: 3 Insufficient memory."
        with pytest.raises(BoxError, match=r"after 3 s \(no node takes it: 0/3 nodes are available"):
            await attach(provider)
        with pytest.raises(BoxError, match="cannot have directories"):
            await attach(provider, replace(SPEC, mounts=[Mount(made.folder, "/data")]))


async def test_a_refusal_says_which_right_or_room_is_lacking() -> None:
    async with cluster() as (made, provider):
        made.quota = 0
        with pytest.raises(BoxError, match=r"exceeded quota.* Destroy boxes that are not needed"):
            await attach(provider)
        made.forbidden = {"networkpolicies"}
        with pytest.raises(
            BoxError, match=r"Its role needs: .*networkpolicies.networking.k8s.io: get, create, patch"
        ):
            await attach(provider)
        made.forbidden = {"pods"}
        with pytest.raises(SandboxUnsupported, match="pods cannot be listed"):
            await provider.check()
        made.token = "another"
        with pytest.raises(SandboxUnsupported, match="does not accept who we say we are"):
            await provider.check()


async def test_where_no_cluster_answers_it_is_said_what_to_do(tmp_path: Path) -> None:
    config = kubeconfig(Cluster(tmp_path, url="http://127.0.0.1:1"), tmp_path / "config")
    with pytest.raises(SandboxUnsupported, match="See whether `kubectl get pods` answers"):
        await Kubernetes(kubeconfig=str(config)).check()


def test_without_a_kubeconfig_or_a_service_account_it_is_said_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match="Set KUBECONFIG"):
        access_of({"HOME": str(tmp_path)}, account=tmp_path / "none")


async def test_in_a_pod_its_service_account_is_used_and_its_token_read_again(tmp_path: Path) -> None:
    for name, said in (("token", "first"), ("namespace", "agents"), ("ca.crt", "")):
        (tmp_path / name).write_text(said)
    clock = ManualClock()
    environ = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = access_of(environ, account=tmp_path, clock=clock)
    assert (access.server, access.namespace) == ("https://[fd00::1]:6443", "agents")
    assert (await access.user.credential()).headers == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second\n")
    clock.turn(61)
    assert (await access.user.credential()).headers == {"Authorization": "Bearer second"}


async def test_several_kubeconfigs_are_read_together_and_paths_are_relative_to_their_own(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "config").write_text(
        "current-context: here\ncontexts:\n- name: here\n  context: {cluster: c, user: u, namespace: team}\n"
    )
    (two / "config").write_text(
        "clusters:\n- name: c\n  cluster: {server: 'http://c'}\nusers:\n- name: u\n  user: {tokenFile: secret}\n"
    )
    (two / "secret").write_text("t")
    access = access_of({"KUBECONFIG": f"{one / 'config'}:{two / 'config'}"})
    assert (access.server, access.namespace) == ("http://c", "team")
    assert (await access.user.credential()).headers == {"Authorization": "Bearer t"}


PLUGIN = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential" and asked["spec"]["cluster"]["server"] == "http://c", asked
count = int(open(sys.argv[1]).read()) + 1
open(sys.argv[1], "w").write(str(count))
if count > 2: sys.exit("log in again, please")
status = {"token": f"token-{count}", "expirationTimestamp": "2027-01-15T09:00:00Z"}
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


@pytest.mark.crash
async def test_a_credential_plugin_is_asked_when_its_credential_ends(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "count").write_text("0")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "count")],
        "provideClusterInfo": True,
    }
    said = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://c"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    (tmp_path / "config").write_text(json.dumps(said))
    clock = ManualClock(datetime(2027, 1, 15, 8, 0, tzinfo=UTC).timestamp())
    user = access_of({}, kubeconfig=str(tmp_path / "config"), clock=clock).user
    for _ in range(3):
        assert (await user.credential()).headers == {"Authorization": "Bearer token-1"}
    clock.turn(3600)
    assert (await user.credential()).headers == {"Authorization": "Bearer token-2"}
    with pytest.raises(SandboxUnsupported, match="log in again, please"):
        await user.credential(anew=True)


def _certificate(
    name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("api.cluster")]), critical=False)
        .sign(issuer[1] if issuer else key, hashes.SHA256())
    )
    return made, key


def _pem(made: tuple[x509.Certificate, ec.EllipticCurvePrivateKey]) -> tuple[bytes, bytes]:
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return made[0].public_bytes(serialization.Encoding.PEM), made[1].private_bytes(
        serialization.Encoding.PEM, form, plain
    )


@pytest.mark.crash
async def test_certificates_are_shown_and_those_of_the_server_verified(tmp_path: Path) -> None:
    authority = _certificate("authority", None)
    root, _ = _pem(authority)
    server, server_key = _pem(_certificate("server", authority))
    mine, mine_key = _pem(_certificate("worker", authority))
    for name, pem in (("root", root), ("server", server), ("server.key", server_key)):
        (tmp_path / name).write_bytes(pem)
    tls = {
        "ssl_certfile": str(tmp_path / "server"),
        "ssl_keyfile": str(tmp_path / "server.key"),
        "ssl_ca_certs": str(tmp_path / "root"),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    async with kubernetes_api(tmp_path, **tls) as made:
        said = {
            "certificate-authority-data": base64.b64encode(root).decode(),
            "tls-server-name": "api.cluster",
        }
        config = kubeconfig(made, tmp_path / "config", **said)
        kept = json.loads(config.read_text())
        with pytest.raises(SandboxUnsupported, match="did not answer"):  # without a certificate of ours
            await Kubernetes(kubeconfig=str(config)).check()
        kept["users"][0]["user"] |= {
            "client-certificate-data": base64.b64encode(mine).decode(),
            "client-key-data": base64.b64encode(mine_key).decode(),
        }
        config.write_text(json.dumps(kept))
        async with Kubernetes(kubeconfig=str(config)).attach(SPEC, 1) as box:
            await box.write("a.txt", b"over TLS")
            assert await box.read("a.txt") == b"over TLS"
        kept["clusters"][0]["cluster"].pop("certificate-authority-data")
        config.write_text(json.dumps(kept))
        with pytest.raises(SandboxUnsupported, match="certificate verify failed"):
            await Kubernetes(kubeconfig=str(config)).check()
