"""A stand-in for a Docker daemon: its Engine API on a unix socket, over containers that really run (`containers`).

Routes, statuses, bodies and their refusals are those of the API's published description (`api/swagger.yaml` of moby,
v1.44), of which it has what boxes use; what is not in there it refuses. Where it is slack: image layers, networks.
"""

import asyncio
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.servers import containers
from tests.servers.http_streams import Asked, Said, serving

CONFIG = {
    "Image": str, "Entrypoint": list, "Cmd": list, "User": str, "WorkingDir": str, "Env": list, "Labels": dict,
    "OpenStdin": bool, "Tty": bool, "NetworkDisabled": bool, "HostConfig": dict, "Hostname": str, "StopSignal": str,
    "AttachStdin": bool, "AttachStdout": bool, "AttachStderr": bool, "StopTimeout": int,
}  # fmt: skip
HOST = {
    "NetworkMode": str, "ReadonlyRootfs": bool, "Privileged": bool, "CapDrop": list, "CapAdd": list, "Init": bool,
    "SecurityOpt": list, "PidsLimit": int, "RestartPolicy": dict, "AutoRemove": bool, "Tmpfs": dict, "Mounts": list,
    "Memory": int, "MemorySwap": int, "NanoCpus": int, "Binds": list, "UsernsMode": str, "ShmSize": int,
    "LogConfig": dict, "OomScoreAdj": int, "ExtraHosts": list,
}  # fmt: skip
MOUNT = {
    "Type": str,
    "Source": str,
    "Target": str,
    "ReadOnly": bool,
    "VolumeOptions": dict,
    "BindOptions": dict,
}
EXEC = {
    "AttachStdin": bool, "AttachStdout": bool, "AttachStderr": bool, "Tty": bool, "Cmd": list, "Env": list,
    "WorkingDir": str, "User": str, "Privileged": bool, "DetachKeys": str,
}  # fmt: skip
NAME = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]+")
LEAST_MEMORY = 6 * 1024 * 1024


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass
class Held:
    """A container, as the daemon knows it."""

    id: str
    name: str
    config: Mapping[str, Any]
    created: datetime
    volumes: dict[str, Path]
    running: containers.Container | None = None
    watched: "asyncio.Task[None] | None" = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def state(self) -> str:
        if self.running is None:
            return "created"
        return "running" if self.running.alive else "exited"


@dataclass
class Daemon:
    """The daemon: what it was asked, and what it holds."""

    folder: Path
    images: dict[str, str] = field(default_factory=lambda: {"python:3.13": containers.PATH})
    """By name; the PATH that each has."""
    version: str = "1.47"
    asked: list[Asked] = field(default_factory=list[Asked])
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    execs: dict[str, tuple[Held, Mapping[str, Any]]] = field(
        default_factory=dict[str, tuple[Held, Mapping[str, Any]]]
    )
    refuse: tuple[str, int, str] = ("", 0, "")
    """(a part of a path, the status, the message) of what is refused."""
    binds: list[tuple[Path, str, bool]] = field(default_factory=list[tuple[Path, str, bool]])
    """What every image has beside this machine's programs."""
    silent: str = ""
    """A part of the paths that are not answered before it is empty again."""
    count: int = 0

    @property
    def socket(self) -> str:
        return str(self.folder / "docker.sock")

    async def answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        path = re.sub(r"^/v\d+\.\d+", "", asked.path)
        try:
            while self.silent and self.silent in path:  # noqa: ASYNC110 - whoever asks is to find that it waits
                await asyncio.sleep(0.01)
            self._refuse_if_told(path)
            return await self._route(asked, path)
        except Refused as refused:
            return Said(refused.status, {"message": str(refused)})

    def _refuse_if_told(self, path: str) -> None:
        if self.refuse[0] and self.refuse[0] in path:
            raise Refused(*self.refuse[1:])

    async def _route(self, asked: Asked, path: str) -> Said:
        match asked.method, path.strip("/").split("/"):
            case "GET", ["version"]:
                return Said(200, {"ApiVersion": self.version, "MinAPIVersion": "1.24", "Version": "27.0.0"})
            case method, ["images", *rest]:
                return self._images(asked, method, rest)
            case "GET", ["volumes"]:
                names = [path.name for held in self.held.values() for path in held.volumes.values()]
                return Said(
                    200, {"Volumes": [{"Name": name, "Driver": "local"} for name in names], "Warnings": []}
                )
            case "GET", ["containers", "json"]:
                return Said(200, self._list(asked))
            case "POST", ["containers", "create"]:
                return self._create(asked)
            case "POST", ["exec", ident, "start"]:
                return self._exec_start(asked, ident)
            case method, ["containers", ident, *rest]:
                return await self._of_container(asked, self._get(ident), (method, *rest))
            case _:
                raise Refused(404, "page not found")

    async def _of_container(self, asked: Asked, held: Held, what: tuple[str, ...]) -> Said:
        match what:
            case "GET", "json":
                return Said(200, self._inspect(held))
            case "POST", "start":
                return await self._start(held)
            case "POST", "attach":
                return self._attach(asked, held)
            case "POST", "exec":
                return self._exec(asked, held)
            case "PUT", "archive":
                return self._put(asked, held)
            case ("DELETE",):
                return await self._delete(asked, held)
            case _:
                raise Refused(404, "page not found")

    def _get(self, ident: str) -> Held:
        for held in self.held.values():
            if ident in {held.id, held.name}:
                return held
        raise Refused(404, f"No such container: {ident}")

    def _images(self, asked: Asked, method: str, rest: list[str]) -> Said:
        if (method, rest) == ("POST", ["create"]):
            return self._pull(asked)
        name = "/".join(rest[:-1])
        if method != "GET" or rest[-1] != "json" or name not in self.images:
            raise Refused(404, f"No such image: {name}")
        return Said(200, {"RepoTags": [name]})

    def _pull(self, asked: Asked) -> Said:
        name = f"{asked.query['fromImage']}:{asked.query.get('tag', 'latest')}"
        if name.startswith("pullable"):
            self.images[name] = containers.PATH
            return Said(200, b'{"status":"Pull complete"}\r\n')
        message = f"manifest for {name} not found: manifest unknown"
        return Said(404, {"message": message})

    def _judge(self, name: str, config: Mapping[str, Any], host: Mapping[str, Any]) -> None:
        _check("HostConfig.", host, HOST)
        for mount in host.get("Mounts", ()):
            _check("HostConfig.Mounts.", mount, MOUNT)
            if mount["Type"] == "bind" and not Path(mount["Source"]).exists():
                raise Refused(
                    400, f"invalid mount config: bind source path does not exist: {mount['Source']}"
                )
        if not NAME.fullmatch(name):
            raise Refused(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
        if config["Image"] not in self.images:
            raise Refused(404, f"No such image: {config['Image']}")
        if taken := [held.id for held in self.held.values() if held.name == name]:
            raise Refused(409, f'Conflict. The container name "/{name}" is already in use by "{taken[0]}".')
        if 0 < host.get("Memory", 0) < LEAST_MEMORY:
            raise Refused(400, "Minimum memory limit allowed is 6MB")
        if host.get("AutoRemove") and host.get("RestartPolicy", {}).get("Name", "no") not in {"", "no"}:
            raise Refused(400, "can't create 'AutoRemove' container with restart policy")

    def _create(self, asked: Asked) -> Said:
        config, name = asked.json, asked.query.get("name", "")
        _check("", config, CONFIG)
        host = config.get("HostConfig", {})
        self._judge(name, config, host)
        self.count += 1
        ident = f"{self.count:064x}"
        volumes: dict[str, Path] = {}
        for number, mount in enumerate(host.get("Mounts", ())):
            if mount["Type"] == "volume":
                volumes[mount["Target"]] = self.folder / f"volume-{self.count}-{number}"
                volumes[mount["Target"]].mkdir()
        self.held[ident] = Held(ident, name, config, datetime.now(UTC), volumes)
        return Said(201, {"Id": ident, "Warnings": []})

    async def _start(self, held: Held) -> Said:
        if held.state == "running":
            return Said(304)
        config, host = held.config, held.config["HostConfig"]
        bound = [mount for mount in host.get("Mounts", ()) if mount["Type"] == "bind"]
        binds = [
            *self.binds,
            *((path, target, True) for target, path in held.volumes.items()),
            *((Path(one["Source"]), one["Target"], not one.get("ReadOnly", False)) for one in bound),
        ]
        wish = containers.Wish(
            argv=[*config["Entrypoint"], *config["Cmd"]],
            env=dict(pair.split("=", 1) for pair in config["Env"]),
            cwd=config["WorkingDir"],
            binds=binds,
            tmpfs=list(host.get("Tmpfs", ())),
            path=self.images[config["Image"]],
            uid=int(config["User"].split(":")[0]),
        )
        try:
            held.running = await containers.start(wish)
        except containers.NoSuchProgram as missing:
            message = f'exec: "{missing}": executable file not found in $PATH: unknown'
            raise Refused(
                400, f"failed to create task for container: OCI runtime create failed: {message}"
            ) from None
        held.watched = asyncio.get_running_loop().create_task(self._watch(held, held.running))
        return Said(204)

    async def _watch(self, held: Held, running: containers.Container) -> None:
        await running.programs[0].ended
        await running.kill()
        await running.quiet.wait()
        held.over.set()
        if held.config["HostConfig"].get("AutoRemove"):
            self._forget(held)

    def _forget(self, held: Held) -> None:
        self.held.pop(held.id, None)
        for path in held.volumes.values():
            shutil.rmtree(path, ignore_errors=True)

    async def _delete(self, asked: Asked, held: Held) -> Said:
        if held.state == "running" and asked.query.get("force") not in {"1", "true"}:
            raise Refused(
                409, f"You cannot remove a running container {held.id}. Stop the container before removing"
            )
        if held.running is not None:
            await held.running.kill()
        self._forget(held)
        return Said(204)

    def _inspect(self, held: Held) -> Mapping[str, Any]:
        state = {"Status": held.state, "Running": held.state == "running", "Paused": False, "ExitCode": 0}
        return {
            "Id": held.id,
            "Name": f"/{held.name}",
            "Created": held.created.isoformat(),
            "State": state,
            "Config": {name: held.config[name] for name in ("Image", "Labels", "Env", "User")},
            "HostConfig": held.config["HostConfig"],
        }

    def _list(self, asked: Asked) -> list[Mapping[str, Any]]:
        wanted = [
            label.partition("=") for label in json.loads(asked.query.get("filters", "{}")).get("label", ())
        ]
        every = asked.query.get("all") in {"1", "true"}
        return [
            {
                "Id": held.id,
                "Names": [f"/{held.name}"],
                "Labels": held.config["Labels"],
                "State": held.state,
                "Created": int(held.created.timestamp()),
            }
            for held in self.held.values()
            if (every or held.state == "running")
            and all(_has(held.config["Labels"], name, equals, value) for name, equals, value in wanted)
        ]

    def _attach(self, asked: Asked, held: Held) -> Said:
        async def carry(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await held.over.wait()
            if held.running is not None and held.running.output:
                said = bytes(held.running.output)
                writer.write(b"\2\0\0\0" + len(said).to_bytes(4, "big") + said)

        return Said(200, upgrade=carry)

    def _put(self, asked: Asked, held: Held) -> Said:
        target = asked.query["path"]
        if target not in held.volumes:
            raise Refused(
                403 if held.config["HostConfig"].get("ReadonlyRootfs") else 404,
                "container rootfs is marked read-only",
            )
        with tarfile.open(fileobj=io.BytesIO(asked.body)) as archive:
            # Owners are as they are to be when it starts.
            archive.extractall(held.volumes[target], filter="data")
        return Said(200)

    def _exec(self, asked: Asked, held: Held) -> Said:
        _check("", asked.json, EXEC)
        if held.state != "running":
            raise Refused(409, f"Container {held.id} is not running")
        if not asked.json.get("Cmd"):
            raise Refused(400, "No exec command specified")
        self.count += 1
        ident = f"e{self.count:063x}"
        self.execs[ident] = (held, asked.json)
        return Said(201, {"Id": ident})

    def _exec_start(self, asked: Asked, ident: str) -> Said:
        _check("", asked.json, {"Detach": bool, "Tty": bool, "ConsoleSize": list})
        if ident not in self.execs:
            raise Refused(404, f"No such exec instance: {ident}")
        held, config = self.execs[ident]
        if held.running is None or not held.running.alive:
            raise Refused(409, f"Container {held.id} is not running")
        running = held.running

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            program = await running.run(config["Cmd"], cwd=config.get("WorkingDir", ""))
            await carried(program, reader, writer)

        kind = "application/vnd.docker.multiplexed-stream"
        return Said(200, upgrade=carry, headers={"Content-Type": kind})


async def carried(
    program: containers.Running, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """A program's stdin and framed output over a connection; it is left without stdin when that ends."""
    loop = asyncio.get_running_loop()

    async def into() -> None:
        try:
            while data := await reader.read(65536):
                await loop.run_in_executor(containers.THREADS, containers.write_all, program.stdin, data)
        except OSError:
            return
        finally:
            os.close(program.stdin)

    async def out(fd: int, kind: int) -> None:
        try:
            while data := await loop.run_in_executor(containers.THREADS, os.read, fd, 32768):
                writer.write(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)
                await writer.drain()
        finally:
            os.close(fd)

    feeding = loop.create_task(into())
    try:
        await asyncio.gather(out(program.stdout, 1), out(program.stderr, 2))
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding


def _has(labels: Mapping[str, str], name: str, equals: str, value: str) -> bool:
    return name in labels and (not equals or labels[name] == value)


def _check(where: str, said: Mapping[str, Any], known: Mapping[str, type]) -> None:
    for name, value in said.items():
        if name not in known:
            raise Refused(400, f"{where}{name}: no such field")
        if not isinstance(value, known[name]) or (known[name] is int and isinstance(value, bool)):
            raise Refused(400, f"json: cannot unmarshal into {where}{name}")


@asynccontextmanager
async def docker_engine(folder: Path) -> AsyncGenerator[Daemon]:
    """A daemon that listens at `Daemon.socket`, and ends with all that it runs."""
    daemon = Daemon(folder)
    async with serving(daemon.answer, daemon.socket):
        try:
            yield daemon
        finally:
            for held in list(daemon.held.values()):
                if held.running is not None:
                    await held.running.kill()
                if held.watched is not None:
                    await held.watched
