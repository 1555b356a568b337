"""The one tree of errors.

    OutlastError
    ├── BadInput                      what the caller gave cannot be used; nothing was changed
    │   ├── BadSessionId · BadSettings · BadTool · BadPayload · BadAttachment · BadEdit
    │   ├── InputConflict             one input id, two contents
    │   ├── SessionFull               so many prompts wait that there is no room for another
    │   ├── SessionBusy               a prompt was to run alone, and another turn is open or waits
    │   └── SessionExists             one session id, two openings
    ├── NotFound
    │   └── SessionUnknown · BlobUnknown · TurnUnknown · CommitUnknown
    ├── Refused                       the World said no; this attempt must stop
    │   ├── CommitConflict            another commit already stands at that number
    │   ├── Fenced                    a newer fence stands
    │   ├── NotIdle                   a lease stands or a turn is open
    │   ├── InputTaken                an input is not there to be consumed
    │   ├── CheckpointTaken           another run of a graph has gone on from the same checkpoint
    │   └── SessionErased
    ├── WorldUnavailable              the store cannot be reached or written; nothing is known to be lost
    │   └── WorldForeign · WorldTooNew · WorldTooOld · WorldReadOnly · WorldFull
    ├── FormatTooNew                  written by a newer outlast
    ├── LogBroken                     a log says what no outlast writes
    │   └── BlobBroken                stored bytes cannot be read back
    ├── HarnessError                  the agent program cannot be started or driven
    │   └── HarnessMissing · UnsupportedPlatform
    ├── ModelError                    a model call came to nothing
    │   ├── ModelCallFailed           the provider answered with an error that may pass, or not rightly
    │   └── ModelCallRejected         the same request would be refused again
    │       └── PromptTooLong
    ├── WorkspaceError                files or commands of a workspace cannot be had; nothing that was recorded is lost
    │   ├── FileMissing · PathRefused
    │   ├── PacksGone                 what the log names of the files is no longer in its store
    │   ├── PacksBroken               stored files cannot be read back
    │   │   └── PacksTooNew           a newer outlast stored them
    │   ├── BoxError                  a machine refuses, or does something else than it was asked
    │   │   └── BoxGone               it has ended
    │   └── SandboxUnsupported        no machine of this kind can be made here
    ├── ToolError                     a tool that a loop called ended otherwise than well
    ├── ChildFailed                   the turn of a session that a loop spawned ended otherwise than well
    ├── NothingCame                   the time of a wait was over
    ├── TooManyCalls                  a turn asked its model as often as it may
    ├── AnswerUnfit                   a model's answer is not of the shape that was asked for
    ├── Declined                      the server does not do what a request asks
    └── ExtraMissing                  a package that only some need is not installed

The sentence lives in the class, the facts are attributes; it says what happened and what to do next.
Control flow that a user's `except Exception` must not swallow is a `BaseException` (`AttemptLost`, `TurnStopped`).
"""

from typing import ClassVar


class OutlastError(Exception):
    """Everything that outlast raises on purpose.

    Each class has a `text`, a format string over the keyword facts that it is raised with.
    """

    text: ClassVar[str] = "{detail}"

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__(self.text.format(**facts))

    def __reduce__(self) -> tuple[object, ...]:
        beside = {name: value for name, value in self.__dict__.items() if name != "facts"}
        return (_rebuild, (type(self), self.facts), beside)

    def __getattr__(self, name: str) -> object:
        facts: dict[str, object] = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)


def _rebuild(cls: type[OutlastError], facts: dict[str, object]) -> OutlastError:
    return cls(**facts)


class BadInput(OutlastError):
    """What the caller gave cannot be used; nothing was changed."""


class SessionFull(BadInput):
    text = (
        "Session {session!r} did not take the prompt {input!r}: {reason}. "
        "Send it again, under another id, when some of them have run."
    )


class SessionBusy(BadInput):
    text = (
        "Session {session!r} did not take the prompt {input!r}: another turn is open or waits. Send it again, under "
        "another id, when that is over; or let it queue."
    )


class BadSessionId(BadInput):
    text = "{session!r} is no session id. Use 1 to 128 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."


class BadSettings(BadInput):
    text = "The setting {name} is {value!r}: {reason}. It stands in {source}."


class BadTool(BadInput):
    text = "The tool {tool!r} cannot be offered: {reason}."


class BadPayload(BadInput):
    text = "{what} cannot be written down: {reason}."


class BadAttachment(BadInput):
    text = "The attachment {name!r} cannot be sent: {reason}."


class BadEdit(BadInput):
    text = "The document {name!r} is as it was: {reason}. Read it again, and edit what is there now."


class InputConflict(BadInput):
    text = (
        "The input id {input!r} was already used in session {session!r} with another content. "
        "Send new content under a new id; the first one stands."
    )


class SessionExists(BadInput):
    text = (
        "The session {session!r} already exists and was opened otherwise ({difference}). Choose another id."
    )


class NotFound(OutlastError):
    """A name leads nowhere."""


class SessionUnknown(NotFound):
    text = "There is no session {session!r} in {world}. `outlast ls` lists what is there."


class BlobUnknown(NotFound):
    text = (
        "Session {session!r} names the bytes {blob!r}, but {world} does not hold them. "
        "Keep a copy of the World and report it."
    )


class TurnUnknown(NotFound):
    text = "Session {session!r} has no turn {turn}. `outlast show {session}` lists its turns."


class CommitUnknown(NotFound):
    text = (
        "Session {session!r} has no commit {seq}: its newest is {newest}. `outlast log {session}` shows them."
    )


class Refused(OutlastError):
    """The World said no: whoever holds this lease must stop, and must not read the head and try again."""


class CommitConflict(Refused):
    text = "Another commit stands at number {seq} of session {session!r}. This attempt is over."


class Fenced(Refused):
    text = "Session {session!r} is at fence {current}, this writer holds {fence}. This attempt is over."


class NotIdle(Refused):
    text = "Session {session!r} is busy ({reason}). Send an input instead, it is taken at the next call."


class InputTaken(Refused):
    text = "The input {input!r} of session {session!r} cannot be consumed: {reason}. This attempt is over."


class CheckpointTaken(Refused):
    text = (
        "Another run of the graph has gone on from checkpoint {checkpoint} already, by checkpoint {by}. "
        "This run is over; invoke the graph again to go on from what stands there now."
    )


class SessionErased(Refused):
    text = "Session {session!r} was erased. Its id cannot be used again."


class WorldUnavailable(OutlastError):
    text = "{world} cannot be used: {reason}. Nothing acknowledged is lost; try again when it is back."


class WorldForeign(WorldUnavailable):
    text = "{world} is not a World of outlast ({reason}). It was left as it is; name another file or move it away."


class WorldTooNew(WorldUnavailable):
    text = (
        "{world} has layout {found}, this outlast knows up to {known}. "
        "Upgrade outlast on this machine; nothing was changed."
    )


class WorldTooOld(WorldUnavailable):
    text = (
        "{world} has layout {found}, which an outlast from before the first release made; this one needs {needed}. "
        "It was left as it is. Go on with the outlast that made it, or {remedy} to begin anew."
    )


class WorldReadOnly(WorldUnavailable):
    text = "{world} cannot be written ({reason}). Sessions can be read but not advanced; give this user write access."


class WorldFull(WorldUnavailable):
    text = "{world} has no room left ({reason}). The commit did not land; free space and the session goes on by itself."


class FormatTooNew(OutlastError):
    text = (
        "Session {session!r} is written in format {found}, this outlast reads up to {known}. "
        "A newer worker can advance it; upgrade this one."
    )


class LogBroken(OutlastError):
    text = (
        "The log of session {session!r} is not sound at commit {seq}: {reason}. It was left as it is. "
        "Keep a copy of the World and report it."
    )


class BlobBroken(LogBroken):
    text = (
        "Bytes that the World holds cannot be read back: {reason}. They were left as they are. "
        "Keep a copy of the World and report it."
    )


class HarnessError(OutlastError):
    text = "{harness} could not be driven: {reason}."


class HarnessMissing(HarnessError):
    text = "{harness} is not installed. Install it with: {install}"


class UnsupportedPlatform(HarnessError):
    text = "outlast cannot supervise processes on {platform}. Supported: {supported}."


class ModelError(OutlastError):
    """A model call came to nothing."""

    retry_after_s: float = 0.0
    """The provider wants to be left alone for as long."""
    usage: object = None
    """An `outlast.records.Usage`: what the provider billed all the same, as far as it said so."""


class ModelCallFailed(ModelError):
    text = "The model provider answered {status}: {reason}"


class ModelCallRejected(ModelError):
    text = (
        "The model provider refuses this request ({status}): {reason} "
        "The same request would be refused again; correct it, or the key."
    )


class PromptTooLong(ModelCallRejected):
    text = "The request does not fit into the context of {model} ({status}): {reason}"


class WorkspaceError(OutlastError):
    text = "{detail}"


class FileMissing(WorkspaceError):
    text = "There is no file {path}."


class PathRefused(WorkspaceError):
    text = "{path} leads out of the workspace. Name a path below {cwd}."


class PacksGone(WorkspaceError):
    text = "{count} packs of the workspace's files are not in {where}: {names}. Give the store back what it held."


class PacksBroken(WorkspaceError):
    text = (
        "The stored files of a workspace cannot be read back: {reason}. They were left as they are. "
        "Keep a copy of the store and report it."
    )


class PacksTooNew(PacksBroken):
    text = (
        "The files of a workspace are stored in format {found}, this outlast reads up to {known}. "
        "A newer worker can open them; upgrade this one."
    )


class BoxError(WorkspaceError):
    text = "The sandbox {box} failed: {reason}"


class BoxGone(BoxError):
    text = "The sandbox {box} has ended: {reason}"


class SandboxUnsupported(WorkspaceError):
    text = "The sandbox provider {provider} does not work here: {reason} {way_out}"


class ToolError(OutlastError):
    text = "{tool} ended as {status}: {said}"


class ChildFailed(OutlastError):
    text = "The turn that {agent} was spawned for ended as {status}: {said}"


class NothingCame(OutlastError):
    text = "Nothing came for {what} within {time}."


class TooManyCalls(OutlastError):
    text = (
        "The turn has asked its model {calls} times, as often as it may. Send another prompt to let it go on."
    )


class AnswerUnfit(OutlastError):
    text = "The model's answer is no {wanted}: {reason}. It said: {said:.2000}"


class Declined(OutlastError):
    """The server does not do what a request asks; its answer has the `status`."""

    status: int
    retry_after_s: float = 0.0
    """In how many seconds the same request may be taken."""


class ExtraMissing(OutlastError):
    text = "{what} needs a package that is not installed. Install it with: {install}"


class AttemptLost(BaseException):
    """This attempt no longer owns the session: it must stop at once and write nothing.

    A `BaseException`, so that no tool's or adapter's `except Exception` carries on as a zombie.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(cause)


class TurnStopped(BaseException):
    """The turn ends or parks here and now; the reason is already in the log. No `except Exception` swallows it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)
