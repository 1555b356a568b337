"""The shell, in its own process: answers asks with the interpreter of bashkit."""

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from bashkit import Bash, ExecResult, ExecutionProfile

from outlast.workspaces.virtual.notes import notes
from outlast.workspaces.virtual.remembering import Memory
from outlast.workspaces.virtual.tree import RefusedError, Tree
from outlast.workspaces.virtual.wire import (
    ROOT,
    Answer,
    Ask,
    Done,
    Failed,
    Find,
    Load,
    Read,
    Remove,
    Run,
    Said,
    Scan,
    Wake,
    Write,
)

FLUSH_S: Final = 0.05
FLUSH_CHARACTERS: Final = 16 * 1024
WAITING_STACK: Final = 1024 * 1024
_KEEP: Final = "exec 198>&1 199>&2"
_RESTORE: Final = "exec 1>&198 2>&199 198>&- 199>&- 0</dev/null"
"""Around a command, which may leave the shell's own streams elsewhere: what comes after it is to be heard."""
NAMED: Final = 10
"""Variables that a note names."""
_UNLIMITED: Final = 1_000_000_000
"""Commands and rounds of a loop: what bounds a command is its time, of which the site keeps count."""


class Interpreter:
    """One shell with its files. Answers an ask at a time; what a command writes comes through `write` meanwhile."""

    def __init__(self, write: Callable[[Said], None]) -> None:
        self._bash = Bash(
            username="user",
            hostname="virtual",
            cwd=ROOT,
            env={"HOME": ROOT, "LANG": "C.UTF-8"},
            max_commands=_UNLIMITED,
            max_loop_iterations=_UNLIMITED,
            timeout_seconds=float(_UNLIMITED),
            profile=ExecutionProfile.Interactive,  # the others end a session after so many commands
        )
        self.tree = Tree(self._bash)
        self._memory = Memory(self._bash)
        self.state, self._dropped = self._memory.state(0)
        self._said = Speech(write)

    def answer(self, ask: Ask) -> Iterator[Answer]:
        """What it answers; the last is a `Done` or a `Failed`."""
        try:
            done = self._do(ask)
        except RefusedError as refused:
            yield refused.failed
            return
        except RuntimeError as error:
            if not isinstance(ask, Read | Find | Scan):
                raise  # it may be half done: the site starts another shell
            yield Failed("refused", f"{ask.path}: {error}.")
            return
        if isinstance(ask, Run | Write | Remove):
            changed, done.gone = self.tree.changes()
            if self.tree.dropped:
                names = ", ".join(sorted(self.tree.dropped)[:NAMED])
                done.notes = [*done.notes, f"removed what no link can be, for where it leads: {names}."]
                done.status = done.status or 1
            for piece in changed:
                yield self.tree.filled(piece)
        yield done

    def _do(self, ask: Ask) -> Done:  # noqa: C901 - one arm for each kind
        match ask:
            case Load():
                return self._load(ask)
            case Wake():
                self.tree.loaded()
                self.state = ask.state
                return Done(notes=self._memory.wake(ask.state))
            case Run():
                return self._run(ask)
            case Read():
                return Done(data=self.tree.read(ask.path))
            case Write():
                self.tree.write(ask.path, ask.data, ask.mode)
                return Done()
            case Find():
                found = self.tree.find(ask.path)
                return Done() if found is None else Done(found=[found[0]], sizes=[found[1]])
            case Scan():
                entries = self.tree.scan(ask.path)
                return Done(found=[entry[0] for entry in entries], sizes=[entry[1] for entry in entries])
            case Remove():
                self.tree.remove(ask.path)
                return Done()

    def _load(self, ask: Load) -> Done:
        try:
            self.tree.load(ask.pieces)
        except RuntimeError as error:
            raise RefusedError(Failed("refused", f"the files cannot be had again: {error}")) from error
        return Done()

    def _run(self, ask: Run) -> Done:
        undo = self._enter(ask)
        self._bash.execute_sync(_KEEP)
        result = self._said.through(lambda heard: self._bash.execute_sync(ask.text, heard))
        for command in (_RESTORE, *undo):
            self._bash.execute_sync(command)
        told, cut = notes(ask.text, result.stderr, lost=result.stdout_truncated or result.stderr_truncated)
        if not self.tree.stands():
            told.append(f"{ROOT} was removed by this; it stands again, and is empty.")
            self._bash.execute_sync(f"builtin cd {ROOT}")
        done = Done(result.exit_code or int(cut), notes=told)
        if self._bash.execute_sync("builtin echo heard").stdout != "heard\n":
            told.append(
                "this shell can no longer be heard, and is replaced: it knows what it knew before the command."
            )
            done.ended = True
            return done
        state, dropped = self._memory.state(self.tree.sight.outside())
        if set(dropped) - set(self._dropped):
            names = ", ".join(dropped[:NAMED]) + (", …" if len(dropped) > NAMED else "")
            told.append(f"too long to be remembered beyond this shell: {names}.")
        self._dropped = dropped
        if state != self.state:
            self.state = done.state = state
        return done

    def _enter(self, ask: Run) -> list[str]:
        """Set directory and environment of this command alone; the commands that take them back."""
        undo: list[str] = []
        if ask.cwd:
            undo.append(f"builtin cd -- {shlex.quote(self._bash.shell_state().cwd)}")
            if self._bash.execute_sync(f"builtin cd -- {shlex.quote(ask.cwd)}").exit_code != 0:
                raise RefusedError(Failed("missing", ask.cwd))
        for name, value in ask.env.items():
            was = self._bash.execute_sync(f"builtin declare -p {shlex.quote(name)}").stdout.strip()
            undo.append(f"builtin unset -v {shlex.quote(name)}; {was}".rstrip("; "))
            self._bash.execute_sync(f"builtin export {shlex.quote(name)}={shlex.quote(value)}")
        return undo


class Speech:
    """Passes on what a command writes: at once, but for what comes within a moment of that."""

    def __init__(self, write: Callable[[Said], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._out: list[str] = []
        self._err: list[str] = []
        self._held = 0
        self._heard = (0, 0)
        self._passed_on = 0.0
        self._waits = False
        """A thread waits to pass on what is held."""

    def through(self, run: Callable[[Callable[[str, str], None]], ExecResult]) -> ExecResult:
        """Run a command, passing on all that it writes before this returns."""
        self._heard = (0, 0)
        result = run(self._hear)
        out, err = self._heard
        self._hear(
            result.stdout[out:], result.stderr[err:]
        )  # what the shell itself says is not heard meanwhile
        with self._lock:
            self._pass_on()
        return result

    def _hear(self, out: str, err: str) -> None:
        with self._lock:
            self._heard = (self._heard[0] + len(out), self._heard[1] + len(err))
            self._out.append(out)
            self._err.append(err)
            self._held += len(out) + len(err)
            if self._held > FLUSH_CHARACTERS or time.monotonic() - self._passed_on > FLUSH_S:
                self._pass_on()
            elif self._held and not self._waits:
                self._waits = True
                usual = threading.stack_size(WAITING_STACK)
                threading.Thread(target=self._wait, daemon=True).start()
                threading.stack_size(usual)

    def _wait(self) -> None:
        time.sleep(FLUSH_S)
        with self._lock:
            self._waits = False
            self._pass_on()

    def _pass_on(self) -> None:
        if self._held:
            self._write(Said("".join(self._out), "".join(self._err)))
            self._passed_on = time.monotonic()
        self._out, self._err, self._held = [], [], 0
