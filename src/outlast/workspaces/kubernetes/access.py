"""Which cluster, and how it is reached: from a kubeconfig, or from inside a pod.

As `kubectl` finds it: the file that is named, else the files of `KUBECONFIG` (the first that says a thing wins), else
`~/.kube/config`; without any, the service account of the pod that the worker runs in.
"""

import base64
import importlib
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from outlast.clock import Clock, SystemClock
from outlast.errors import ExtraMissing, SandboxUnsupported
from outlast.workspaces.kubernetes.credentials import PROVIDER, Credential, User

INSTALL: Final = "pip install 'outlast[kubernetes]'"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster, as one user."""

    server: str
    namespace: str
    user: User
    authority: str = ""
    """PEM that its certificate is verified with; empty: the machine's own authorities."""
    insecure: bool = False
    server_name: str = ""
    """What its certificate names, where that is not the host of `server`."""

    def context(self, credential: Credential) -> ssl.SSLContext | None:
        """What TLS is made with; None: `server` is plain HTTP."""
        if not self.server.startswith("https"):
            return None
        made = ssl.create_default_context(cadata=self.authority or None)
        if self.insecure:
            made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        if credential.certificate:
            _load(made, credential)
        return made


def _load(made: ssl.SSLContext, credential: Credential) -> None:
    """The library reads certificates from files only: they stand there for as long as that takes."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "cert"), Path(folder, "key")
        for path, pem in ((certificate, credential.certificate), (key, credential.key)):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(pem)
        made.load_cert_chain(certificate, key)


def access_of(
    environ: Mapping[str, str],
    *,
    kubeconfig: str = "",
    context: str = "",
    namespace: str = "",
    clock: Clock | None = None,
    account: Path = _ACCOUNT,
) -> Access:
    """The cluster that these, else the environment, mean.

    Raises:
        SandboxUnsupported: nothing says which, or it cannot be read.
        ExtraMissing: a kubeconfig is to be read, and the extra is not installed.
    """
    ticking = clock or SystemClock()
    named = kubeconfig or environ.get("KUBECONFIG", "")
    usual = Path(environ.get("HOME") or "/") / ".kube/config"
    files = [Path(part).expanduser() for part in named.split(os.pathsep) if part] or [usual]
    present = [file for file in files if file.is_file()]
    if present:
        return _from_files(present, context, namespace, ticking)
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if not named and host and account.is_dir():
        return _in_cluster(host, environ.get("KUBERNETES_SERVICE_PORT", "443"), namespace, account, ticking)
    raise _unreadable(
        f"there is no kubeconfig ({', '.join(map(str, files))}), and this is no pod with a service account",
        "Set KUBECONFIG, or give the worker's pod a service account (automountServiceAccountToken).",
    )


def _in_cluster(host: str, port: str, namespace: str, account: Path, clock: Clock) -> Access:
    own = account / "namespace"
    bracketed = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{bracketed}:{port}",
        namespace=namespace or (own.read_text().strip() if own.is_file() else "default"),
        user=User({"tokenFile": str(account / "token")}, account, {}, clock),
        authority=(account / "ca.crt").read_text(),
    )


def _from_files(files: Sequence[Path], context: str, namespace: str, clock: Clock) -> Access:
    read = [(file, _read(file)) for file in files]
    chosen = context or next(
        (str(said["current-context"]) for _, said in read if said.get("current-context")), ""
    )
    if not chosen:
        raise _unreadable("the kubeconfig has no current context", "`kubectl config use-context NAME`.")
    meant, _ = _named(read, "context", chosen)
    cluster, folder = _named(read, "cluster", str(meant.get("cluster", "")))
    user: Mapping[str, Any] = {}
    beside = folder
    if meant.get("user"):
        user, beside = _named(read, "user", str(meant["user"]))
    authority = ""
    if data := cluster.get("certificate-authority-data"):
        authority = base64.b64decode(str(data)).decode()
    elif file := cluster.get("certificate-authority"):
        authority = (folder / str(file)).read_text()
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        namespace=namespace or str(meant.get("namespace") or "default"),
        user=User(user, beside, cluster, clock),
        authority=authority,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
    )


def _named(
    read: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str
) -> tuple[Mapping[str, Any], Path]:
    """The first entry of this name, and the directory of its file."""
    for file, said in read:
        for entry in said.get(f"{kind}s") or ():
            if entry.get("name") == name:
                return entry.get(kind) or {}, file.parent
    places = ", ".join(str(file) for file, _ in read)
    raise _unreadable(
        f"{places} has no {kind} {name!r}", f"`kubectl config get-{kind}s` shows those there are."
    )


def _read(file: Path) -> Mapping[str, Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ExtraMissing(what="Reading a kubeconfig", install=INSTALL) from None
    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise _unreadable(
            f"{file} cannot be read ({error})", "`kubectl config view` says what is wrong."
        ) from error
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _unreadable(reason: str, way_out: str) -> SandboxUnsupported:
    return SandboxUnsupported(provider=PROVIDER, reason=f"{reason}.", way_out=way_out)
