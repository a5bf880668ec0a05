"""Says by which name Ray knows the GPU that a task needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trtsmith.converter.batch.fleet.node_facts import NodeFacts
from trtsmith.converter.batch.gpu_demand import ANY, GpuDemand

CAPABILITIES: Mapping[str, tuple[int, int]] = {
    "K80": (3, 7),
    "P100": (6, 0),
    "P4": (6, 1),
    "V100": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A100-40G": (8, 0),
    "A100-80G": (8, 0),
    "A10G": (8, 6),
    "L4": (8, 9),
    "L40S": (8, 9),
    "H100": (9, 0),
    "H200": (9, 0),
    "H20": (9, 0),
    "B200": (10, 0),
    "GB200": (10, 0),
    "B300": (10, 3),
    "GB300": (10, 3),
    "RTX-PRO-6000": (12, 0),
}
"""Compute capabilities by Ray's names of accelerators (ray.util.accelerators, NVIDIA's), as NVIDIA's table of CUDA GPUs has
them. What a machine says of its GPU counts more."""


@dataclass(frozen=True)
class GpuKind:
    """GPUs of one kind in the cluster: Ray's name for it ("" for none), compute capability ("sm89"), how many there are, and
    the name that the driver gives it."""

    accelerator: str
    target: str
    count: float
    title: str


def gpu_kinds(nodes: Sequence[NodeFacts]) -> list[GpuKind]:
    """What the cluster has, most first."""
    counts: dict[tuple[str, str, str], float] = {}
    for facts in nodes:
        for name in (facts.node.accelerators or ("",)) if facts.node.gpus > 0 else ():
            target = _target(facts.gpu.compute_capability if facts.gpu else CAPABILITIES.get(name))
            key = (name, target, facts.gpu.name if facts.gpu else name)
            counts[key] = counts.get(key, 0) + facts.node.gpus
    kinds = [GpuKind(name, target, count, title) for (name, target, title), count in counts.items()]
    return sorted(kinds, key=lambda kind: (-kind.count, kind.accelerator, kind.target))


def choose_gpu(demand: GpuDemand, kinds: Sequence[GpuKind]) -> GpuKind | None:
    """The kind on which tasks with this demand run: always the same one, since results differ from GPU to GPU.

    It is the one of which there are most; None where no kind fits.
    """
    for kind in kinds:
        named = demand.name == ANY or demand.name.lower() == kind.accelerator.lower()
        if named and (not demand.targets or kind.target in demand.targets):
            return kind
    return None


def accelerators_of(targets: Collection[str]) -> list[str]:
    """Ray's names of GPUs that have one of these compute capabilities."""
    return [name for name, capability in CAPABILITIES.items() if _target(capability) in targets]


def _target(capability: tuple[int, int] | None) -> str:
    return "" if capability is None else "sm{}{}".format(*capability)
