"""Docker, Kubernetes and hosted sandboxes, held to the contract: over stand-ins that speak the documented APIs and run
what they are given, and Docker's over a real daemon, Podman's.

A few cases of each run in `make test`, those in which the way to a box matters; `make test-all` runs them all.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from outlast.sandbox import Ability
from outlast.testing.sandbox_contract import CASES, Case, GroundFactory, lacking
from tests.sandboxes.on_docker import on_docker_stand_in, on_podman
from tests.sandboxes.on_hosted import on_unix_local
from tests.sandboxes.on_kubernetes import on_kubernetes_stand_in
from tests.servers.podman import Missing, podman

pytestmark = [pytest.mark.timeout(300)]

CORE = {
    "a_job_reads_what_it_is_given_and_then_an_end",
    "output_past_its_limit_is_dropped_at_its_head_and_says_so",
    "a_newer_fence_takes_the_box_and_the_older_one_is_refused",
    "of_holders_that_race_the_newest_holds_one_box",
    "a_box_without_idle_time_ends_with_a_killed_worker",
    "a_command_goes_on_when_its_worker_is_killed_and_the_next_reads_on",
    "a_box_that_nobody_holds_ends_by_itself",
    "a_box_whose_supervisor_was_killed_has_ended",
    "a_destroyed_box_is_gone_at_once",
    "a_way_leads_to_its_socket",
    "a_box_is_found_by_its_ref",
}
LACKS: dict[str, set[Ability]] = {
    "podman": set(),
    "docker": {"limits"},
    "kubernetes": {"limits", "mounts"},
    "unix_local": {"limits", "mounts", "network"},
}
"""What a ground lacks: the stand-ins have no control groups of their own, a pod nothing of the worker's machine."""
UNISOLATED = frozenset(
    {
        "a_box_whose_supervisor_was_killed_has_ended",
        "a_box_without_idle_time_ends_with_a_killed_worker",
        "a_stopped_worker_loses_a_box_that_ends_with_it",
        "what_a_job_leaves_by_killing_its_keeper_dies",
    }
)
"""Without a machine of its own nothing ends with a supervisor; and that a worker is gone shows to the relay late."""


def _cases(ground: str, core: set[str], without: frozenset[str] = frozenset()) -> list[object]:
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.crash if case.name in core else pytest.mark.full])
        for case in CASES
        if case.name not in without and not case.needs & LACKS[ground]
    ]


async def _keeps(case: Case, factory: GroundFactory) -> None:
    async with factory() as ground:
        assert not lacking(case, ground)
        await case.run(ground)


@pytest.mark.parametrize("case", _cases("docker", CORE))
async def test_docker_keeps(case: Case) -> None:
    await _keeps(case, on_docker_stand_in)


@pytest.mark.parametrize("case", _cases("kubernetes", CORE))
async def test_kubernetes_keeps(case: Case) -> None:
    await _keeps(case, on_kubernetes_stand_in)


@pytest.mark.parametrize(
    "case", _cases("unix_local", {"a_job_reads_what_it_is_given_and_then_an_end"}, UNISOLATED)
)
async def test_hosted_keeps(case: Case) -> None:
    await _keeps(case, on_unix_local)


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    try:
        with podman() as socket:
            yield socket
    except Missing as missing:
        pytest.fail(str(missing))


@pytest.mark.parametrize("case", _cases("podman", set()))
async def test_podman_keeps(case: Case, service: str) -> None:
    await _keeps(case, partial(on_podman, service))
