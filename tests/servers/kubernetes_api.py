"""A stand-in for a cluster: its API over HTTP, and pods that really run (`containers`).

It has the routes that boxes use, as the API's reference describes them: pods with watch and exec (the websocket
protocol `v5.channel.k8s.io`, or `v4` of older servers), claims, network policies by server-side apply. What is sent is
judged by the models that are made from the cluster's published OpenAPI (`lightkube-models`), with no unknown field, and
by the Pod Security level `restricted`. Where it is slack: scheduling, nodes, what a network policy does.
"""

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from lightkube.models import meta_v1
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tests.servers import containers
from tests.servers.api_rules import Refused, judged
from tests.servers.pod_exec import channels
from tests.servers.pod_security import violations

CORE = "/api/v1/namespaces/{namespace}"
NET = "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"


@dataclass
class Cluster:
    """The cluster: what it was asked, what it has, and how it is to behave."""

    folder: Path
    token: str = "of-a-user"
    asked: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """(method, path, body) of each request that was let in."""
    things: dict[tuple[str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str], dict[str, Any]]
    )
    running: dict[str, containers.Container] = field(default_factory=dict[str, containers.Container])
    forbidden: set[str] = field(default_factory=set[str])
    """Kinds of things that the user has no right to; `pods/exec` is one."""
    quota: int = 100
    images: dict[str, str] = field(default_factory=lambda: {"python:3.13": containers.PATH})
    no_node: str = ""
    protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    broken: int = 0
    """The status that everything is answered with; 0: nothing is wrong."""
    streams: set[WebSocket] = field(default_factory=set[WebSocket])
    url: str = ""
    count: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    # ------------------------------------------------------------------ requests

    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except Refused as refused:
            return refused.response

    async def _answer(self, request: Request) -> Response:
        kind, name = request.path_params.get("kind", "networkpolicies"), request.path_params.get("name", "")
        self._let_in(request.headers.get("authorization", ""), kind)
        data = await request.body()
        body = json.loads(data) if data else None
        self.asked.append((request.method, request.url.path, body))
        match request.method, bool(name):
            case "GET", False:
                return self._list(request, kind)
            case "GET", True:
                return JSONResponse(self._get(kind, name))
            case "POST", False:
                return JSONResponse(await self._create(kind, request.path_params["namespace"], body), 201)
            case "PATCH", True:
                return self._apply(request, kind, name, body)
            case "DELETE", True:
                return JSONResponse(await self._delete(kind, name, body or {}))
            case _:
                raise Refused(
                    405, "MethodNotAllowed", "the server does not allow this method on the resource"
                )

    def _let_in(self, authorization: str, kind: str) -> None:
        if self.broken:
            raise Refused(self.broken, "InternalError", "etcdserver: request timed out")
        if authorization != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if kind in self.forbidden:
            raise Refused(
                403, "Forbidden", f'{kind} is forbidden: User "worker" cannot use resource "{kind}"'
            )

    def _get(self, kind: str, name: str) -> dict[str, Any]:
        if (kind, name) not in self.things:
            raise Refused(404, "NotFound", f'{kind} "{name}" not found')
        return self.things[kind, name]

    def _list(self, request: Request, kind: str) -> Response:
        fields = dict(
            pair.split("=", 1) for pair in request.query_params.get("fieldSelector", "").split(",") if pair
        )
        labels = dict(
            pair.split("=", 1) for pair in request.query_params.get("labelSelector", "").split(",") if pair
        )
        if unknown := fields.keys() - {"metadata.name", "status.phase"}:
            raise Refused(400, "BadRequest", f"field label not supported: {unknown}")

        def fits(one: Mapping[str, Any]) -> bool:
            values = {"metadata.name": one["metadata"]["name"], "status.phase": one["status"]["phase"]}
            has = one["metadata"].get("labels", {})
            return (
                all(values[key] == value for key, value in fields.items()) and labels.items() <= has.items()
            )

        found = [one for (which, _), one in self.things.items() if which == kind and fits(one)]
        if request.query_params.get("watch") in {"1", "true"}:
            seconds = float(request.query_params.get("timeoutSeconds", "60"))
            return StreamingResponse(self._watch(fits, seconds), media_type="application/json")
        return JSONResponse({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found})

    async def _watch(self, fits: Any, seconds: float) -> AsyncIterator[bytes]:
        seen = len(self.events)
        for (kind, _), one in list(self.things.items()):
            if kind == "pods" and fits(one):
                yield _line("ADDED", one)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    async with self.changed:
                        await self.changed.wait_for(partial(self._longer, seen))
                    for event in self.events[seen:]:
                        if fits(event["object"]):
                            yield _line(event["type"], event["object"])
                    seen = len(self.events)

    def _longer(self, seen: int) -> bool:
        return len(self.events) > seen

    async def _create(self, kind: str, namespace: str, body: Any) -> dict[str, Any]:
        judged(kind, body)
        name = body["metadata"]["name"]
        if (kind, name) in self.things:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if kind == "pods":
            if sum(which == "pods" for which, _ in self.things) >= self.quota:
                limit = f"requested: pods=1, used: pods={self.quota}, limited: pods={self.quota}"
                raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: boxes, {limit}')
            if wrong := violations(body):
                why = f'violates PodSecurity "restricted:latest": {", ".join(wrong)}'
                raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: {why}')
        made = self._stamped(body, namespace)
        self.things[kind, name] = made
        if kind == "pods":
            await self._tell("ADDED", made)
            self._spawn(self._run(made))
        return made

    def _stamped(self, body: Any, namespace: str) -> dict[str, Any]:
        self.count += 1
        made = json.loads(json.dumps(body))
        made["metadata"] |= {
            "namespace": namespace,
            "uid": f"00000000-0000-0000-0000-{self.count:012d}",
            "resourceVersion": str(self.count),
            "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        made["status"] = {"phase": "Pending"}
        return made

    def _apply(self, request: Request, kind: str, name: str, body: Any) -> Response:
        if request.headers.get("content-type") != "application/apply-patch+yaml":
            raise Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        if not request.query_params.get("fieldManager"):
            raise Refused(422, "Invalid", "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value")
        judged(kind, body)
        there = (kind, name) in self.things
        self.things[kind, name] = self._stamped(body, request.path_params["namespace"])
        return JSONResponse(self.things[kind, name], 200 if there else 201)

    async def _delete(self, kind: str, name: str, options: Mapping[str, Any]) -> Any:
        msgspec.convert(options, meta_v1.DeleteOptions)
        found = self._get(kind, name)
        wanted = options.get("preconditions", {}).get("uid", found["metadata"]["uid"])
        if wanted != found["metadata"]["uid"]:
            raise Refused(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}")
        if kind == "pods":
            found["metadata"]["deletionTimestamp"] = found["metadata"]["creationTimestamp"]
            await self._tell("MODIFIED", found)
            self._spawn(self._remove(found))
        else:
            del self.things[kind, name]
        return found

    # ------------------------------------------------------------------ pods

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _tell(self, event: str, pod: dict[str, Any]) -> None:
        self.events.append({"type": event, "object": json.loads(json.dumps(pod))})
        async with self.changed:
            self.changed.notify_all()

    async def _run(self, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        container = spec["containers"][0]
        if self.no_node:
            scheduled = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": self.no_node,
            }
            pod["status"] |= {"conditions": [scheduled]}
            await self._tell("MODIFIED", pod)
            return
        if container["image"] not in self.images:
            message = f'Back-off pulling image "{container["image"]}"'
            await self._waits(pod, "ImagePullBackOff", message)
            return
        wish = containers.Wish(
            argv=[*container["command"], *container.get("args", ())],
            env={pair["name"]: pair["value"] for pair in container.get("env", ())},
            cwd=container["workingDir"],
            binds=[
                (self._volume(pod, mount["name"]), mount["mountPath"], True)
                for mount in container["volumeMounts"]
            ],
            tmpfs=(),
            path=self.images[container["image"]],
            uid=int(spec["securityContext"]["runAsUser"]),
        )
        try:
            running = await containers.start(wish)
        except containers.NoSuchProgram as missing:
            message = f'exec: "{missing}": executable file not found in $PATH: unknown'
            await self._waits(pod, "RunContainerError", message)
            return
        name = pod["metadata"]["name"]
        self.running[name] = running
        pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "box", "state": {"running": {}}}]}
        await self._tell("MODIFIED", pod)
        status = await running.programs[0].ended
        await running.kill()
        pod["status"]["phase"] = "Succeeded" if status == 0 else "Failed"
        await self._tell("MODIFIED", pod)

    async def _waits(self, pod: dict[str, Any], reason: str, message: str) -> None:
        waiting = {"waiting": {"reason": reason, "message": message}}
        pod["status"] |= {"containerStatuses": [{"name": "box", "state": waiting}]}
        await self._tell("MODIFIED", pod)

    def _volume(self, pod: Mapping[str, Any], name: str) -> Path:
        volume = next(one for one in pod["spec"]["volumes"] if one["name"] == name)
        if claimed := volume.get("persistentVolumeClaim"):
            self._get("persistentvolumeclaims", claimed["claimName"])
            path = self.folder / f"claim-{claimed['claimName']}"
        else:
            path = self.folder / f"{pod['metadata']['uid']}-{name}"
        path.mkdir(exist_ok=True)
        return path

    async def _remove(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        running = self.running.pop(name, None)
        if running is not None:
            await running.kill()
        self.things.pop(("pods", name), None)
        for path in self.folder.glob(f"{pod['metadata']['uid']}-*"):
            shutil.rmtree(path, ignore_errors=True)
        await self._tell("DELETED", pod)

    # ------------------------------------------------------------------ exec

    def _judge_exec(self, authorization: str, name: str, command: list[str]) -> None:
        self._let_in(authorization, "pods/exec")
        pod = self._get("pods", name)
        if not command:
            raise Refused(400, "BadRequest", "you must specify at least 1 command for the container")
        if pod["status"]["phase"] != "Running" or not self.running[name].alive:
            why = (
                f"cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
            )
            raise Refused(400, "BadRequest", why)

    async def exec(self, websocket: WebSocket) -> None:
        name, command = websocket.path_params["name"], websocket.query_params.getlist("command")
        try:
            self._judge_exec(websocket.headers.get("authorization", ""), name, command)
        except Refused as refused:
            await websocket.send_denial_response(refused.response)
            return
        offered = websocket.scope["subprotocols"]
        protocol = next(one for one in offered if one in self.protocols)
        await websocket.accept(subprotocol=protocol)
        program = await self.running[name].run(command)
        self.streams.add(websocket)
        try:
            await channels(websocket, program, may_close=protocol.startswith("v5"))
        finally:
            self.streams.discard(websocket)

    async def cut(self) -> None:
        """Every exec stream ends where it is."""
        for websocket in list(self.streams):
            with suppress(RuntimeError):
                await websocket.close(1011)

    async def end(self) -> None:
        for running in list(self.running.values()):
            await running.kill()
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)


def _line(event: str, pod: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": event, "object": pod}).encode() + b"\n"


@asynccontextmanager
async def kubernetes_api(folder: Path, **tls: Any) -> AsyncGenerator[Cluster]:
    """A cluster that listens at `Cluster.url`, and ends with all that it runs.

    `tls`: of uvicorn, `ssl_certfile`, `ssl_keyfile`, `ssl_ca_certs`, `ssl_cert_reqs`.
    """
    cluster = Cluster(folder)
    app = Starlette(
        routes=[
            WebSocketRoute(f"{CORE}/pods/{{name}}/exec", cluster.exec),
            Route(f"{CORE}/{{kind}}", cluster.answer, methods=["GET", "POST"]),
            Route(f"{CORE}/{{kind}}/{{name}}", cluster.answer, methods=["GET", "DELETE"]),
            Route(f"{NET}/{{name}}", cluster.answer, methods=["GET", "PATCH"]),
        ]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    cluster.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    config = uvicorn.Config(app, ws="websockets-sansio", lifespan="off", log_config=None, **tls)
    server = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(server._serve([listener]))  # pyright: ignore[reportPrivateUsage] - `serve` takes the signals
    try:
        yield cluster
    finally:
        await cluster.end()
        server.should_exit = server.force_exit = True
        await serving
        listener.close()


def kubeconfig(cluster: Cluster, path: Path, **cluster_said: Any) -> Path:
    """A kubeconfig for it, written at `path`."""
    said = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "boxes"}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.url, **cluster_said}}],
        "users": [{"name": "u", "user": {"token": cluster.token}}],
    }
    path.write_text(json.dumps(said))  # JSON is YAML
    return path
