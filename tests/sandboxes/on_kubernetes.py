"""Where the contract makes boxes in Kubernetes: on a stand-in for a cluster."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from outlast.ids import new_id
from outlast.sandbox import Ability, Ref, SandboxProvider, Spec
from outlast.testing.sandbox_contract import Ground, Recipe
from outlast.workspaces.kubernetes import Kubernetes
from tests.sandboxes.grounds import MARK, marked
from tests.servers.kubernetes_api import Cluster, kubeconfig, kubernetes_api


def provider_at(config: str) -> SandboxProvider:
    return Kubernetes(kubeconfig=config, start_s=30)


class OnKubernetes:
    def __init__(self, cluster: Cluster, config: Path) -> None:
        self.cluster = cluster
        self.config = str(config)
        self.name = new_id("ground")

    @property
    def abilities(self) -> frozenset[Ability]:
        # Control groups are a node's; what is asked of them is looked at where it arrives.
        return self.provider().abilities - {"limits"}

    @property
    def spec(self) -> Spec:
        return Spec(self.name, env={MARK: self.name})

    def provider(self) -> SandboxProvider:
        return provider_at(self.config)

    def recipe(self) -> Recipe | None:
        return Recipe(f"{__name__}:provider_at", (self.config,))

    async def kill_supervisor(self, ref: Ref) -> None:
        await self.cluster.running[str(ref["pod"])].kill_first()

    async def left(self, ref: Ref) -> Sequence[str]:
        found = [f"process {pid}" for pid in marked(self.name)]
        pod = self.cluster.things.get(("pods", str(ref["pod"])))
        if pod is not None and pod["status"]["phase"] == "Running":
            found.append("its pod runs")
        return found


@asynccontextmanager
async def on_kubernetes_stand_in() -> AsyncGenerator[Ground]:
    with TemporaryDirectory() as directory:
        async with kubernetes_api(Path(directory)) as cluster:
            yield OnKubernetes(cluster, kubeconfig(cluster, Path(directory) / "config"))
