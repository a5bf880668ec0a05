"""Asks every machine of a cluster what it has: trtsmith, packages, TensorRT, GPU."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trtsmith.converter.batch.cache.machine_facts import MachineFacts, this_machine
from trtsmith.converter.engine.build.gpu import Gpu

PROBE_S = 90.0
"""For the answers of all machines together. Starting Python there and reading 600 sources takes 3 s on an idle one."""

_GPU_S = 30.0
_GPU_RESOURCE = "GPU"
_ACCELERATOR = "accelerator_type:"

_FIND_GPU = """
import json
from trtsmith.converter.engine.build.gpu import find_gpu
gpu = find_gpu()
print(json.dumps(None if gpu is None else [gpu.name, *gpu.compute_capability]))
"""


@dataclass(frozen=True)
class RayNode:
    """A machine of the cluster, as Ray has it.

    id:         Ray's, in hexadecimal. address: its IP address.
    cpus, gpus: how many it gives to tasks in all. memory: bytes for tasks.
    accelerators: Ray's names for the kind of its GPUs, such as "L4"; () where it has none, or no name for them.
    """

    id: str
    address: str
    cpus: float
    gpus: float
    memory: float
    accelerators: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.address} (node {self.id[:8]})"


@dataclass(frozen=True)
class NodeFacts:
    """What a machine says of itself.

    machine: what its results depend on; without a GPU, as tasks see it that ask for none. gpu: its first.
    error:   why it could not say it; the rest is then empty.
    """

    node: RayNode
    machine: MachineFacts = field(default_factory=lambda: MachineFacts({}, {}, ""))
    gpu: Gpu | None = None
    host: str = ""
    python: str = ""
    error: str = ""


def alive_nodes(ray: Any) -> list[RayNode]:
    """The machines on which tasks can run; one that gives no cores runs none."""
    nodes = [_node(entry) for entry in ray.nodes() if entry["Alive"]]
    return sorted((node for node in nodes if node.cpus > 0), key=lambda node: (node.address, node.id))


def _node(entry: Mapping[str, Any]) -> RayNode:
    resources = entry["Resources"]
    kinds = [name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR)]
    return RayNode(
        id=entry["NodeID"],
        address=entry["NodeManagerAddress"],
        cpus=resources.get("CPU", 0.0),
        gpus=resources.get(_GPU_RESOURCE, 0.0),
        memory=resources.get("memory", 0.0),
        accelerators=tuple(sorted(kinds)),
    )


def ask_nodes(ray: Any, nodes: Sequence[RayNode]) -> list[NodeFacts]:
    """What each machine says, in a task of its own there; whatever goes wrong is in `error`. It waits for no resources."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = [
        ray.remote(say_facts)
        .options(
            num_cpus=0,
            max_retries=1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        .remote(has_gpu=node.gpus > 0)
        for node in nodes
    ]
    answered, late = ray.wait(asked, num_returns=len(asked), timeout=PROBE_S) if asked else ([], [])
    for reference in late:
        ray.cancel(reference, force=True)
    return [
        _answer(ray, node, reference) if reference in answered else NodeFacts(node, error=_LATE)
        for node, reference in zip(nodes, asked, strict=True)
    ]


_LATE = f"it did not answer within {PROBE_S:g} s"


def _answer(ray: Any, node: RayNode, reference: Any) -> NodeFacts:
    try:
        facts: NodeFacts = ray.get(reference)
    except Exception as error:  # of Ray, and of whatever is installed there
        return NodeFacts(node, error=_why(error))
    return replace(facts, node=node)


def _why(error: Exception) -> str:
    """One line; what Ray says of a module that is missing there ends with that error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line]
    return (telling or lines or [type(error).__name__])[-1]


def say_facts(has_gpu: bool) -> NodeFacts:
    """Of the machine on which this runs. has_gpu: whether Ray has found one."""
    return NodeFacts(
        node=RayNode("", "", 0, 0, 0),
        machine=machine_without_gpu(),
        gpu=_gpu() if has_gpu else None,
        host=platform.node(),
        python=platform.python_version(),
    )


def machine_without_gpu() -> MachineFacts:
    """`this_machine`, as a task sees it to which no GPU was given."""
    return replace(this_machine(), gpu=None)


def _gpu() -> Gpu | None:
    """Asked in a process that sees all GPUs: Ray may hide them from a task that asks for none."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _FIND_GPU],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GPU_S,
            env=environment,
        )
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return None if found is None else Gpu(found[0], (found[1], found[2]))
