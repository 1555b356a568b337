"""LangGraph's checkpointer over threads, wherever these are."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapters.langgraph.index import Index
from outlast.adapters.langgraph.journal import Dropped, Name, Put, Typed, Value, Version, Write, Writes
from outlast.adapters.langgraph.threads import Make, Thread
from outlast.errors import BadInput, SessionErased

T = TypeVar("T")

KEPT: Final = 256
"""Threads whose checkpoints are held in memory, those used last."""


class Threads(Protocol):
    """Where threads are."""

    async def find(self, thread: str) -> Thread | None: ...
    async def open(self, thread: str) -> Thread: ...
    async def erase(self, thread: str) -> None: ...
    async def copy(self, source: str, target: str) -> None: ...
    def ids(self) -> AsyncIterator[str]: ...


class Saver(BaseCheckpointSaver[str]):
    """A checkpointer over threads, wherever these are; see `langgraph.checkpoint.base` for what each method does.

    The methods without `a` wait for the event loop in which it was made, and must be called from another thread.
    """

    def __init__(self, threads: Threads, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._threads = threads
        self._known: OrderedDict[str, Thread] = OrderedDict()
        self._loop = asyncio.get_running_loop()

    # reading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns, id_ = _address(config)
        found = await self._find(thread)
        put = None if found is None else found.index.find(ns, id_)
        return None if found is None or put is None else self._tuple(thread, found.index, put)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        asked: dict[str, Any] = {} if config is None else config.get("configurable", {})
        limits = _Limits(
            ns=asked.get("checkpoint_ns"),
            id=asked.get("checkpoint_id") or "",
            before="" if before is None else before.get("configurable", {}).get("checkpoint_id") or "",
            filter=filter or {},
        )
        left = limit
        names = self._threads.ids() if config is None else _only(str(asked["thread_id"]))
        async for thread in names:
            async for found in self._list(thread, limits):
                if left is not None and left <= 0:
                    return
                left = None if left is None else left - 1
                yield found

    async def _list(self, thread: str, limits: "_Limits") -> AsyncIterator[CheckpointTuple]:
        found = await self._find(thread)
        puts = () if found is None else tuple(found.index.puts(limits.ns))
        for put in puts:
            if found is not None and limits.fit(put, self._load):
                yield self._tuple(thread, found.index, put)

    def _tuple(self, thread: str, index: Index, put: Put) -> CheckpointTuple:
        checkpoint = self._load(put.checkpoint)
        checkpoint["channel_versions"] = dict(put.versions)
        checkpoint["channel_values"] = {
            channel: [self._load(one) for one in value] if isinstance(value, list) else self._load(value)
            for channel, value in index.values(put).items()
        }
        return CheckpointTuple(
            config=_config(thread, put.ns, put.id),
            checkpoint=cast("Checkpoint", checkpoint),
            metadata=self._load(put.metadata),
            parent_config=_config(thread, put.ns, put.parent) if put.parent else None,
            pending_writes=[
                (task, write.channel, self._load(write.value))
                for task, write in index.pending(put.ns, put.id)
            ],
        )

    # writing

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns, parent = _address(config)
        about = get_checkpoint_metadata(config, metadata)
        await self._append(
            thread, lambda index: [self._put(index, (ns, parent), checkpoint, about, new_versions)]
        )
        return _config(thread, ns, checkpoint["id"])

    def _put(
        self,
        index: Index,
        parent: Name,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, Version],
    ) -> Put:
        ns, before = parent
        rest: dict[str, Any] = {
            name: part
            for name, part in checkpoint.items()
            if name not in {"channel_values", "channel_versions"}
        }
        values = checkpoint["channel_values"]
        return Put(
            ns=ns,
            id=checkpoint["id"],
            checkpoint=self._dump(rest),
            metadata=self._dump(metadata),
            versions=dict(checkpoint["channel_versions"]),
            values=tuple(
                self._value(index, parent, channel, version, values)
                for channel, version in new_versions.items()
            ),
            parent=before,
            source=metadata.get("source", ""),
            run=str(metadata.get("run_id", "")),
        )

    def _value(
        self, index: Index, parent: Name, channel: str, version: Version, values: Mapping[str, Any]
    ) -> Value:
        if channel not in values:
            return Value(channel, version)
        value = values[channel]
        if type(value) is not list:
            return Value(channel, version, whole=self._dump(value))
        items = [self._dump(one) for one in cast("list[object]", value)]
        before = index.list_before(*parent, channel)
        if before is None or before[0] == version:
            return Value(channel, version, items=tuple(items))
        kept = _common(before[1], items)
        return Value(channel, version, items=tuple(items[kept:]), base=before[0], kept=kept)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        thread, ns, id_ = _address(config)
        made = tuple(
            Write(WRITES_IDX_MAP.get(channel, at), channel, self._dump(value))
            for at, (channel, value) in enumerate(writes)
        )
        await self._append(thread, lambda _: [Writes(ns, id_, task_id, made, task_path)])

    # removing

    async def adelete_thread(self, thread_id: str) -> None:
        await self._threads.erase(thread_id)
        self._known.pop(thread_id, None)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._threads.copy(source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        unwanted = frozenset(run_ids)
        if not unwanted:
            return
        async for thread in self._threads.ids():
            await self._drop(thread, lambda index: _of_runs(index, unwanted))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in {"keep_latest", "delete"}:
            raise BadInput(detail=f"There is no strategy {strategy!r} to prune by: keep_latest, delete.")
        for thread in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread)
            else:
                await self._drop(thread, self._superseded)

    async def _drop(self, thread: str, choose: "_Choose") -> None:
        found = await self._find(thread)
        if found is None:
            return

        def dropped(index: Index) -> Sequence[Dropped]:
            names = choose(index)
            return [Dropped(tuple(names))] if names else []

        await found.append(dropped)

    def _superseded(self, index: Index) -> Sequence[Name]:
        """What is not the newest of its namespace, nor needed to put a channel of that together."""
        kept: set[Name] = set()
        for ns in {put.ns for put in index.puts()}:
            put = index.find(ns)
            # Channels that a checkpoint holds only as what changed; their names stand in its metadata.
            metadata: dict[str, Any] = {} if put is None else self._load(put.metadata)
            needed: set[str] = set(metadata.get("counters_since_delta_snapshot") or ())
            while put is not None:
                kept.add((put.ns, put.id))
                needed -= index.values(put).keys()
                put = index.find(ns, put.parent) if needed and put.parent else None
        return [(put.ns, put.id) for put in index.puts() if (put.ns, put.id) not in kept]

    # one by one, from another thread

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        found = self.alist(config, filter=filter, before=before, limit=limit)
        return iter(self._wait(_all(found)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._wait(self.aprune(thread_ids, strategy=strategy))

    def get_next_version(self, current: str | None, channel: None) -> str:
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        # Two branches of a thread count alike, and what they hold must not be taken for one another's.
        return f"{number + 1:010}.{random.getrandbits(48):012x}"

    def _wait(self, job: Coroutine[Any, Any, T]) -> T:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            job.close()
            raise BadInput(
                detail="The checkpointer was asked in its own event loop. Use the graph's `ainvoke`, `astream` … there."
            )
        return asyncio.run_coroutine_threadsafe(job, self._loop).result()

    def _dump(self, value: object) -> Typed:
        return self.serde.dumps_typed(value)

    def _load(self, value: Typed) -> Any:
        return self.serde.loads_typed(value)

    async def _find(self, thread: str) -> Thread | None:
        known = self._known.get(thread)
        if known is not None:
            with suppress(SessionErased):  # by another process; the thread may have begun anew since
                await known.refresh()
                return self._keep(known)
            del self._known[thread]
        found = await self._threads.find(thread)
        if found is None:
            return None
        await found.refresh()
        return self._keep(found)

    async def _append(self, thread: str, make: Make) -> None:
        known = self._known.get(thread)
        if known is not None:
            with suppress(SessionErased):
                await known.append(make)
                return
            self._known.pop(thread, None)
        found = await self._threads.open(thread)
        await self._keep(found).append(make)

    def _keep(self, found: Thread) -> Thread:
        kept = self._known.setdefault(found.id, found)
        self._known.move_to_end(found.id)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return kept


_Choose: TypeAlias = Callable[[Index], Sequence[Name]]


@dataclass(frozen=True, slots=True)
class _Limits:
    """Which checkpoints somebody wants to see."""

    ns: str | None
    id: str
    before: str
    filter: Mapping[str, Any]

    def fit(self, put: Put, load: Callable[[Typed], Any]) -> bool:
        if (self.id and put.id != self.id) or (self.before and put.id >= self.before):
            return False
        metadata: dict[str, Any] = load(put.metadata) if self.filter else {}
        return all(metadata.get(name) == value for name, value in self.filter.items())


def _of_runs(index: Index, runs: frozenset[str]) -> Sequence[Name]:
    return [(put.ns, put.id) for put in index.puts() if put.run in runs]


def _address(config: RunnableConfig) -> tuple[str, str, str]:
    """Thread, namespace and checkpoint of a config."""
    asked = config.get("configurable", {})
    return str(asked["thread_id"]), asked.get("checkpoint_ns") or "", asked.get("checkpoint_id") or ""


def _config(thread: str, ns: str, id_: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id_}}


def _common(before: Sequence[Typed], now: Sequence[Typed]) -> int:
    """How many elements two lists have in common, from the first."""
    return next(
        (at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other),
        min(len(before), len(now)),
    )


async def _only(thread: str) -> AsyncIterator[str]:
    yield thread


async def _all(found: AsyncIterator[CheckpointTuple]) -> Sequence[CheckpointTuple]:
    return [one async for one in found]
