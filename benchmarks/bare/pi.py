"""Pi alone: `pi --mode rpc` with the adapter's flags and settings, without the extension."""

import os
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.bare.program import Spot, Started, Watch, over_too_early
from outlast.adapters.pi import launch, stream
from outlast.adapters.pi.versions import installed
from outlast.ids import stable_uuid
from tests.harnesses.pi import MODEL


class PiAlone:
    """Its provider is led to the scripted model by `models.json`, as a user does it."""

    def lay_out(self, spot: Spot) -> None:
        started = _launch(spot)
        config = spot.home / launch.config_path(started.session)
        config.mkdir(parents=True)
        link = spot.home / launch.package_path(started.session)
        link.symlink_to(installed().package)
        provider = {"providers": {launch.provider(started.api): launch.provider_config(started)}}
        (config / "models.json").write_bytes(msgspec.json.encode(provider))
        (config / "settings.json").write_bytes(msgspec.json.encode(launch.settings(started)))

    def argv(self, spot: Spot) -> Sequence[str]:
        words = list(launch.argv(_launch(spot)))
        at = words.index("--extension")
        del words[at : at + 2]
        return words

    def environment(self, spot: Spot) -> Mapping[str, str]:
        return {**launch.environment(_launch(spot), os.environ), "ANTHROPIC_API_KEY": "none"}

    async def take_turn(self, started: Started, spot: Spot, prompt: str, watch: Watch) -> None:
        await started.write(stream.prompt(prompt))
        last: stream.Answered | None = None
        async for line in started.lines(watch):
            match stream.read(line):
                case stream.Answered() as said:
                    last = said
                case stream.NotTaken(_, why):
                    raise RuntimeError(f"Pi without outlast refuses the prompt: {why}")
                case stream.Settled():
                    if last is None or last.error:
                        raise RuntimeError(f"Pi without outlast failed: {last}")
                    return
                case _:
                    pass
        raise over_too_early("Pi")


def _launch(spot: Spot) -> launch.Launch:
    found = installed()
    return launch.Launch(
        node=found.node,
        program=found.program,
        session=stable_uuid("bare", str(spot.home)),
        home=spot.home,
        door=spot.door,
        model=MODEL,
        tool_home=spot.user,
    )
