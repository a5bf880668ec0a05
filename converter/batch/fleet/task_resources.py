"""Turns what a task needs into Ray's resources, and says what no machine of the cluster has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.fleet.accelerators import (
    GpuKind,
    accelerators_of,
    choose_gpu,
    gpu_kinds,
)
from trtsmith.converter.batch.fleet.node_facts import NodeFacts, RayNode
from trtsmith.converter.batch.gpu_demand import ANY, GpuDemand, gpu_demand
from trtsmith.converter.batch.task import BatchTask
from trtsmith.importers.problem import Problem

_MIB = 2**20


@dataclass(frozen=True)
class TaskResources:
    """What Ray holds for a task while it runs. memory: bytes, 0 for no limit. gpu: the kind, None for no GPU."""

    cpus: float
    memory: int
    gpu: GpuKind | None

    def options(self) -> dict[str, Any]:
        """For `ray.remote`."""
        options: dict[str, Any] = {"num_cpus": self.cpus}
        if self.memory:
            options["memory"] = self.memory
        if self.gpu is not None:
            options["num_gpus"] = 1
            if self.gpu.accelerator:
                options["accelerator_type"] = self.gpu.accelerator
        return options

    def fit(self, node: RayNode) -> bool:
        """Whether the machine could run the task if it had nothing else to do."""
        if self.gpu is not None and (
            node.gpus < 1 or self.gpu.accelerator not in (node.accelerators or ("",))
        ):
            return False
        return node.cpus >= self.cpus and node.memory >= self.memory


class Cluster:
    """What the machines of a cluster have together, as they said it before the first task."""

    def __init__(self, nodes: Sequence[NodeFacts]) -> None:
        self.nodes = tuple(nodes)
        self._kinds = gpu_kinds(nodes)
        without = [facts for facts in nodes if not facts.node.gpus] or nodes
        self._flavours = {name for facts in without for name in facts.machine.flavours}

    def demand(self, task: BatchTask) -> GpuDemand | None:
        """The GPU that the task needs."""
        return gpu_demand(task, self._flavours)

    def resources(self, task: BatchTask) -> TaskResources:
        """LookupError for a task that needs a GPU of which there is none."""
        demand = self.demand(task)
        kind = None if demand is None else choose_gpu(demand, self._kinds)
        if demand is not None and kind is None:
            raise LookupError(demand)
        return TaskResources(task.needs.cpus, (task.needs.memory_mib or 0) * _MIB, kind)

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """The machine on which the task runs; all that can run it are alike. None: there is none."""
        try:
            resources = self.resources(task)
        except LookupError:
            return None
        fitting = [facts for facts in self.nodes if resources.fit(facts.node)]
        if not fitting:
            return None
        gpu = fitting[0].gpu if resources.gpu is not None else None
        return replace(fitting[0].machine, gpu=gpu)

    def problems(self, tasks: Sequence[BatchTask]) -> list[Problem]:
        """What tasks need and no machine has, each lack once with the tasks that have it."""
        lacking: dict[GpuDemand, list[BatchTask]] = {}
        too_large: dict[TaskResources, list[BatchTask]] = {}
        for task in tasks:
            try:
                resources = self.resources(task)
            except LookupError as error:
                lacking.setdefault(error.args[0], []).append(task)
                continue
            if not any(resources.fit(facts.node) for facts in self.nodes):
                too_large.setdefault(resources, []).append(task)
        return [*self._without_gpu(lacking), *self._too_large(too_large)]

    def _without_gpu(self, lacking: Mapping[GpuDemand, Sequence[BatchTask]]) -> Iterator[Problem]:
        has = ", ".join(
            f"{kind.count:g} {kind.accelerator or kind.title or 'of unknown kind'}"
            + (f" ({kind.target})" if kind.target else "")
            for kind in self._kinds
        )
        for demand, tasks in lacking.items():
            yield Problem(
                f"the cluster has no GPU {_wanted(demand)}; it has {has or 'none at all'}",
                f"{_listed(tasks)}: {demand.why}",
                _expected(demand),
                "add such a machine; or leave these tasks out; TensorRT-RTX builds without a GPU, where neither bench nor "
                "--verify engine asks for one",
            )

    def _too_large(self, too_large: Mapping[TaskResources, Sequence[BatchTask]]) -> Iterator[Problem]:
        sizes = sorted(
            {(facts.node.cpus, int(facts.node.memory / _MIB)) for facts in self.nodes}, reverse=True
        )
        has = "; ".join(f"{cpus:g} cores, {memory} MiB" for cpus, memory in sizes)
        for resources, tasks in too_large.items():
            gpu = (
                ""
                if resources.gpu is None
                else f" and a GPU {resources.gpu.accelerator or resources.gpu.title}"
            )
            yield Problem(
                f"no machine of the cluster has {resources.cpus:g} cores, {resources.memory // _MIB} MiB{gpu}",
                _listed(tasks),
                f"at most what a machine has: {has or 'there is none that runs tasks'}",
                "ask for less (cpus, memory) in the zoo, or add such a machine",
            )


def _wanted(demand: GpuDemand) -> str:
    parts = [] if demand.name == ANY else [demand.name]
    if demand.targets:
        parts.append(f"of compute capability {' or '.join(demand.targets)}")
    return " ".join(parts) or "that tasks can use"


def _expected(demand: GpuDemand) -> str:
    if demand.name != ANY:
        return f"a machine whose accelerator type in Ray is {demand.name}"
    known = accelerators_of(demand.targets)
    return f"a machine with one of {', '.join(known)}" if known else "a machine with such a GPU"


def _listed(tasks: Sequence[BatchTask], most: int = 3) -> str:
    names = ", ".join(task.name for task in tasks[:most])
    return names if len(tasks) <= most else f"{names} and {len(tasks) - most} more"
