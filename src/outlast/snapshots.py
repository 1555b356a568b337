"""Snapshots of a session's state, each at the cost of what is new since the one before.

What only grows — the settled calls of a turn, the mirrored lines of a file — stands in *parts*: blobs that are written
once and named by every later snapshot. Their names stand in nodes of `codec.NODE` in turn, so a snapshot of a turn of
a million calls names some dozens of blobs. All else of the state stands in the snapshot itself.

Invariants:

* Folding may begin at any snapshot and comes to what folding everything comes to (`tests/property`).
* A part is written with the commit of the first snapshot that names it, or stands in the World already.
* A settled call never changes, so its part never does. Of a file a part counts as long as nothing of it was cut off.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from outlast.codec import NODE, GetBlobs, Packer
from outlast.errors import BlobBroken
from outlast.mirrored import FileState
from outlast.records import Kept, Payload, Shelf, Snapshot
from outlast.squeezing import unsqueeze
from outlast.state import CallState, SessionState, TurnState

PART: Final = 128 * 1024
"""Bytes of JSON at which a part is full: what is encoded, compressed or decoded in one go."""
WORTH: Final = 16 * 1024
"""Bytes of JSON below which what is new stays in the snapshot: a blob of its own would be no gain."""

T = TypeVar("T")

_calls = msgspec.json.Decoder(list[CallState])
_lines = msgspec.json.Decoder(list[tuple[Payload, int]])
_names = msgspec.json.Decoder(list[str])
_encoder = msgspec.json.Encoder()


def snapshot_of(state: SessionState, packer: Packer, *, worth: int = WORTH, part: int = PART) -> Snapshot:
    """A snapshot of `state`, for the next commit; its blobs are `packer`'s.

    It takes time for what came since the newest snapshot and for what is not in parts, not for the whole state.
    """
    new = _New(state, packer, worth, part)
    bare = msgspec.structs.replace(
        state,
        turn=None if state.turn is None else new.without_calls(state.turn),
        cut=None if state.cut is None else new.without_calls(state.cut),
        files={name: new.without_lines(name, file) for name, file in state.files.items()},
        held=[],  # what the session holds is a hint, and would be most of the snapshot
        kept=Kept(),
    )
    payload = packer.text(_encoder.encode(bare))
    if not (new.calls or new.files):
        return Snapshot(payload)
    # Not as `state`: whoever knows nothing of parts must not take this for the whole.
    return Snapshot(Payload(), payload, Kept(new.calls, state.next_call, tuple(new.left), new.files))


class _New:
    """What a new snapshot leaves to parts."""

    def __init__(self, state: SessionState, packer: Packer, worth: int, part: int) -> None:
        self._state = state
        self._packer = packer
        self._worth = worth
        self._part = part
        self.calls: dict[int, Shelf] = {}
        self.left: list[int] = []
        self.files: dict[str, Shelf] = {}

    def without_calls(self, turn: TurnState) -> TurnState:
        """The turn with those calls only that are in no part; what has settled goes into one, if it is worth that."""
        kept, next_call = self._state.kept, self._state.next_call
        shelf = kept.calls.get(turn.turn)
        new = turn.calls if shelf is None else (*kept.left, *range(kept.next_call, next_call))
        loose = {number: turn.calls[number] for number in new if number in turn.calls}
        settled = {number: _encoder.encode(call) for number, call in loose.items() if not call.open}
        if self._is_worth(settled.values()):
            shelf = self._put(shelf or Shelf(), list(settled.values()))
            loose = {number: call for number, call in loose.items() if number not in settled}
        if shelf is None:
            return turn
        self.calls[turn.turn] = shelf
        self.left.extend(loose)
        return msgspec.structs.replace(turn, calls=loose)

    def without_lines(self, name: str, file: FileState) -> FileState:
        """The file with those lines only that are in no part."""
        shelf = self._state.kept.files.get(name)
        if shelf is None or file.kept < shelf.count:  # something was cut that stands in a part
            shelf = Shelf()
        pieces, counts = file.pieces[shelf.count :], file.counts[shelf.count :]
        texts = [_encoder.encode(piece) for piece in zip(pieces, counts, strict=True)]
        if self._is_worth(texts):
            shelf, pieces, counts = self._put(shelf, texts), [], []
        if not shelf.count:
            return file
        self.files[name] = shelf
        return FileState(pieces, counts)

    def _is_worth(self, texts: Iterable[bytes]) -> bool:
        return sum(map(len, texts)) >= self._worth

    def _put(self, shelf: Shelf, texts: Sequence[bytes]) -> Shelf:
        """The shelf with more: JSON texts of what it holds, in parts."""
        levels = [list(level) for level in shelf.levels]
        part: list[bytes] = []
        size = 0
        for at, text in enumerate(texts, 1):
            part.append(text)
            size += len(text)
            if size >= self._part or at == len(texts):
                self._name(levels, self._packer.blob(b"[" + b",".join(part) + b"]"))
                part, size = [], 0
        return Shelf(tuple(map(tuple, levels)), shelf.count + len(texts))

    def _name(self, levels: list[list[str]], name: str) -> None:
        """Name one more part; a level that is full becomes a name of the level above."""
        for level in levels:
            level.append(name)
            if len(level) < NODE:
                return
            name = self._packer.blob(_encoder.encode(level))
            level.clear()
        levels.append([name])


async def whole(record: Snapshot, get_blobs: GetBlobs) -> SessionState:
    """The state that a snapshot is of, its parts read.

    Raises:
        msgspec.MsgspecError, RecursionError, BlobBroken: it is not what `snapshot_of` wrote.
    """
    payload = record.bare if _has_parts(record) else record.state
    text = bytes(payload.json)
    if payload.ref:
        text = unsqueeze((await get_blobs([payload.ref]))[payload.ref])
    state = msgspec.json.decode(text, type=SessionState)
    for turn in (state.turn, state.cut):
        shelf = None if turn is None else record.kept.calls.get(turn.turn)
        if turn is not None and shelf is not None:
            found = [*await _read(shelf, get_blobs, _calls), *turn.calls.values()]
            turn.calls = {call.intent.call: call for call in sorted(found, key=_number)}
    for name, shelf in record.kept.files.items():
        file = state.files[name]
        lines = await _read(shelf, get_blobs, _lines)
        file.pieces = [*(piece for piece, _ in lines), *file.pieces]
        file.counts = [*(count for _, count in lines), *file.counts]
    return state


def _number(call: CallState) -> int:
    return call.intent.call


async def _read(shelf: Shelf, get_blobs: GetBlobs, decoder: "msgspec.json.Decoder[list[T]]") -> list[T]:
    names: list[str] = []
    for level in reversed(shelf.levels):
        names = [*await _flat(names, get_blobs, _names), *level]
    found = await _flat(names, get_blobs, decoder)
    if len(found) != shelf.count:
        raise BlobBroken(reason=f"its parts hold {len(found)} of {shelf.count}")
    return found


async def _flat(
    names: Sequence[str], get_blobs: GetBlobs, decoder: "msgspec.json.Decoder[list[T]]"
) -> list[T]:
    """What blobs that are lists hold, in order; some blobs at a time, so that others get a turn."""
    values: list[T] = []
    for at in range(0, len(names), NODE):
        some = names[at : at + NODE]
        found = await get_blobs(list(dict.fromkeys(some)))
        for name in some:
            values += decoder.decode(unsqueeze(found[name]))
    return values


def _has_parts(record: Snapshot) -> bool:
    return bool(record.kept.calls or record.kept.files)


def inline(record: Snapshot) -> SessionState:
    """The state of a snapshot that stands in its record, whole.

    Raises:
        msgspec.MsgspecError, RecursionError: it is no state, or parts of it stand elsewhere.
    """
    if _has_parts(record) or record.state.ref:
        raise msgspec.ValidationError("it stands in blobs that were not fetched")
    return msgspec.json.decode(record.state.json, type=SessionState)


def adopt(state: SessionState, loaded: SessionState) -> None:
    """Begin with a state that was loaded. Commits and fences are counted by the log itself."""
    for name in set(SessionState.__struct_fields__) - {"session", "seq", "fence"}:
        setattr(state, name, getattr(loaded, name))


def keep(state: SessionState, record: Snapshot) -> None:
    """The log has a snapshot of `state`: the next is written from it on."""
    state.kept, state.tail = record.kept, 0
    for name, file in state.files.items():
        shelf = record.kept.files.get(name)
        file.kept = 0 if shelf is None else shelf.count


def forget_calls(state: SessionState, turn: int) -> None:
    """A turn begins again: what parts hold of its calls is in no later snapshot."""
    calls = {number: shelf for number, shelf in state.kept.calls.items() if number != turn}
    state.kept = msgspec.structs.replace(state.kept, calls=calls)


def weight(record: Snapshot) -> int:
    """Bytes of what every snapshot writes anew."""
    return max(len(one.json) + one.size for one in (record.state, record.bare))
