"""The table of what holds of each harness, made of what its subject and its adapter say: nobody writes it by hand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from outlast.recovery import Abilities
from outlast.testing.adapter_contract.subject import Subject

RERUNS: Final = {"none": "none of them", "one": "one of them", "all": "all of them"}
PROMISES: Final[Mapping[str, tuple[str, ...]]] = {
    "Turns, on any machine that has the World": (
        "a_plain_turn",
        "the_next_turn_",
        "a_turn_killed_between_calls_goes_on_on_a_machine",
    ),
    "The application's tools, and its own": (
        "the_harness_s_own_tools",
        "tools_of_every_policy",
        "a_tool_of_the_application",
    ),
    "`outlast_wait` holds no process": ("a_wait_",),
    "Images that come with a prompt reach the model, also after a `kill -9`": ("an_image_",),
    "Steers reach the running turn": ("a_steer_",),
    "Cancels leave a sound conversation": ("a_cancelled_turn_", "a_turn_cancelled_"),
    "A provider that fails": ("an_error_that_", "a_provider_that_", "an_answer_cut_", "a_stream_cut_"),
    "Forks, in the midst of a turn and before one": ("a_session_forked_", "a_fork_"),
    "`kill -9` of the worker, wherever the turn is": (
        "a_worker_killed_when_",
        "a_worker_killed_while_",
        "a_worker_killed_before_",
        "a_worker_killed_between_",
        "a_shell_command_killed_",
    ),
    "An edit of its own that a kill cut off is found out": ("an_edit_",),
    "`kill -9` again, during the recovery": ("a_worker_killed_again_",),
    "`kill -9` of the harness alone": ("a_harness_killed_alone_",),
    "A harness that falls silent is started again": ("a_harness_that_falls_silent_",),
    "The provider's cache of the prompt holds": ("a_prompt_begins_",),
    "Another version is warned about": ("a_harness_upgraded_",),
    "Sub-agents": ("a_sub_agent_",),
    "Sub-agents that ask for the same, at once": ("two_sub_agents_",),
    "Compaction by the harness": (
        "a_compaction_",
        "a_turn_killed_right_after_its",
        "a_turn_killed_in_a_tool_after",
    ),
    "A hook that fails blocks its tools": ("a_hook_",),
}
"""Rows of the table, and how the names of the cases that stand behind each begin."""


@dataclass(frozen=True, slots=True)
class Column:
    """One harness in the table."""

    subject: Subject
    title: str
    """Its name for people; may be a link."""
    abilities: Abilities
    beside: bool = False
    """It can do without tools of its own, on those of the worker (`outlast.offering`)."""


def cases_of(row: str, names: Sequence[str]) -> list[str]:
    """The names among these of the cases that stand behind a row."""
    return [name for name in names if name.startswith(PROMISES[row])]


def table(columns: Sequence[Column], names: Sequence[str]) -> str:
    """The table in Markdown, and below it what each harness lacks and why.

    Args:
        names: of every case of the contract.
    """
    head = ["", *(column.title for column in columns)]
    facts = [
        ["It speaks to its model in", *(f"`{column.subject.dialect}`" for column in columns)],
        [
            "Its own calls, cut off, that run again without asking the model",
            *(RERUNS[column.abilities.can_rerun] for column in columns),
        ],
        ["Without any machine, on `virtual()` files", *map(_on_virtual, columns)],
    ]
    attached = ["Files that may come with a prompt", *(_attached(column.abilities) for column in columns)]
    facts.append(attached)
    rows = [[row, *(_holds(column.subject, cases_of(row, names)) for column in columns)] for row in PROMISES]
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, facts), *map(_line, rows)]
    lacks = [f"- {column.title}: {lack}" for column in columns for lack in _lacks(column.subject)]
    return "\n".join([*lines, *(["", "What does not hold, and why:", "", *lacks] if lacks else [])]) + "\n"


def _attached(abilities: Abilities) -> str:
    """Those of which nothing is said fail the turn before it begins."""
    return ", ".join(f"`{kind}`" for kind in sorted(abilities.attachments)) or "none"


def _on_virtual(column: Column) -> str:
    if not column.abilities.program:
        return "yes"
    return "yes, with our tools in the place of its own" if column.beside else "no"


def _holds(subject: Subject, names: Sequence[str]) -> str:
    lacking = sum(name in subject.lacks for name in names)
    if not lacking:
        return "yes"
    return "no" if lacking == len(names) else "in part"


def _lacks(subject: Subject) -> Iterator[str]:
    """Each reason, with the cases that it is the reason of."""
    by_reason = sorted(subject.lacks.items(), key=lambda lack: lack[1])
    for reason, cases in groupby(by_reason, key=lambda lack: lack[1]):
        yield f"{reason} ({', '.join(f'`{name}`' for name, _ in cases)})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
