"""Limits: what a box may use up, and that the rest of it goes on."""

from typing import Final

from outlast.testing.sandbox_contract.blocks import begun, ended, held, limited, ran, same
from outlast.testing.sandbox_contract.case import Case, Ground, promise

_BOMB: Final = "bomb() { bomb | bomb & }; bomb; sleep 1; exit 0"
_MB: Final = 1 << 20
_EAT: Final = 'python3 -c \'x = bytearray({size}); x[:] = b"1" * {size}; print("eaten")\''


@promise("limits")
async def a_fork_bomb_ends_and_the_box_goes_on(ground: Ground) -> None:
    async with held(ground, spec=limited(ground, processes=60)) as box:
        job = await begun(box, _BOMB, timeout_s=3)
        assert await ended(job) in {0, 1, 2, 124, 254}
        same(await ran(box, "echo on"), (0, "on\n"))


@promise("limits")
async def who_takes_too_much_memory_fails_and_the_box_goes_on(ground: Ground) -> None:
    async with held(ground, spec=limited(ground, memory_bytes=192 * _MB)) as box:
        same(await ran(box, _EAT.format(size=16 * _MB)), (0, "eaten\n"))
        status, said = await ran(box, _EAT.format(size=512 * _MB))
        assert status != 0, said
        same(await ran(box, "echo on"), (0, "on\n"))


CASES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Case))
