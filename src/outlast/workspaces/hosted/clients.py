"""The hosted sandboxes that openai-agents has clients for, and what each can truthfully do for a box.

What a client cannot be told is not claimed: only where its options cut the network is `network` an ability, only where
they take a size is `limits`. None binds directories of the worker's machine.
"""

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from outlast.errors import BadInput, ExtraMissing
from outlast.sandbox import Ability, Spec

Options = Mapping[str, Any]
_LEAST_S: Final = 300.0
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hosting:
    """A client: where it is, how a `Spec` becomes its options, what it can do."""

    module: str
    client: str
    options: str
    sdk: str
    """What it drives, as a module; empty: nothing."""
    install: str
    asked: Callable[[Spec], Options]
    abilities: frozenset[Ability]


def _e2b(spec: Spec) -> Options:
    template = {"template": spec.image} if spec.image else {}
    return {
        "sandbox_type": "e2b",
        "timeout": _lives_s(spec),
        "on_timeout": "kill",
        "auto_resume": False,
        "allow_internet_access": False,
        "metadata": {"outlast.box": spec.name, **spec.labels},
        **template,
    }


def _modal(spec: Spec) -> Options:
    limits = spec.limits
    cpu = {"cpu": limits.cpus} if limits.cpus else {}
    memory = {"memory": math.ceil(limits.memory_bytes / _MIB)} if limits.memory_bytes else {}
    return {"app_name": "outlast", "timeout": _lives_s(spec), **cpu, **memory}


def _daytona(spec: Spec) -> Options:
    limits = spec.limits
    wanted: dict[str, int] = {}
    if limits.cpus:
        wanted["cpu"] = math.ceil(limits.cpus)
    if limits.memory_bytes:
        wanted["memory"] = math.ceil(limits.memory_bytes / (1024 * _MIB))
    image = {"image": spec.image} if spec.image else {}
    sized = {"resources": wanted} if wanted else {}
    return {"auto_stop_interval": math.ceil(_lives_s(spec) / 60), **image, **sized}


def _vercel(spec: Spec) -> Options:
    runtime = {"runtime": spec.image} if spec.image else {"runtime": "python3.13"}
    return {"timeout_ms": _lives_s(spec) * 1000, "network_policy": "deny-all", **runtime}


def _runloop(spec: Spec) -> Options:
    blueprint = {"blueprint_name": spec.image} if spec.image else {}
    return {"metadata": {"outlast.box": spec.name, **spec.labels}, **blueprint}


def _blaxel(spec: Spec) -> Options:
    image = {"image": spec.image} if spec.image else {}
    memory = {"memory": math.ceil(spec.limits.memory_bytes / _MIB)} if spec.limits.memory_bytes else {}
    return {"labels": dict(spec.labels), "ttl": f"{_lives_s(spec)}s", **image, **memory}


def _plain(_spec: Spec) -> Options:
    return {}


def _lives_s(spec: Spec) -> int:
    """How long the service keeps a sandbox at most without being told again; the supervisor inside ends it before."""
    return math.ceil(max(_LEAST_S, spec.idle_s + _LEAST_S))


def _hosted(name: str, stem: str, sdk: str, asked: Callable[[Spec], Options], *abilities: Ability) -> Hosting:
    return Hosting(
        f"agents.extensions.sandbox.{name}",
        f"{stem}SandboxClient",
        f"{stem}SandboxClientOptions",
        sdk,
        f"pip install 'outlast[openai-agents]' 'openai-agents[{name}]'",
        asked,
        frozenset({"outlives", "isolates", *abilities}),
    )


HOSTINGS: Final[Mapping[str, Hosting]] = {
    "blaxel": _hosted("blaxel", "Blaxel", "blaxel", _blaxel),
    "cloudflare": _hosted("cloudflare", "Cloudflare", "aiohttp", _plain),
    "daytona": _hosted("daytona", "Daytona", "daytona", _daytona, "limits"),
    "e2b": _hosted("e2b", "E2B", "e2b", _e2b, "network"),
    "modal": _hosted("modal", "Modal", "modal", _modal, "limits"),
    "runloop": _hosted("runloop", "Runloop", "runloop_api_client", _runloop),
    "vercel": _hosted("vercel", "Vercel", "vercel", _vercel, "network"),
    # Programs of this machine, with whatever this user may do: of use in tests, and where something else isolates.
    "unix_local": Hosting(
        "agents.sandbox.sandboxes.unix_local",
        "UnixLocalSandboxClient",
        "UnixLocalSandboxClientOptions",
        "",
        "pip install 'outlast[openai-agents]'",
        _plain,
        frozenset({"outlives"}),
    ),
}


def hosting_of(name: str) -> Hosting:
    """The client of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in HOSTINGS:
        raise BadInput(
            detail=f"There is no hosted sandbox {name!r}; there are {', '.join(sorted(HOSTINGS))}."
        )
    return HOSTINGS[name]


def imported(hosting: Hosting) -> Any:
    """The module of a client.

    Raises:
        ExtraMissing: it, or the SDK that it drives, is not installed.
    """
    missing = ExtraMissing(what=f"The sandbox client {hosting.module}", install=hosting.install)
    if hosting.sdk and importlib.util.find_spec(hosting.sdk) is None:
        raise missing
    try:
        return importlib.import_module(hosting.module)
    except ImportError:
        raise missing from None
