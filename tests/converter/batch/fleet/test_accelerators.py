"""Which GPU a task needs, and by which of Ray's names it gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.converter.batch.workers import task
from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.fleet.accelerators import CAPABILITIES, accelerators_of
from trtsmith.converter.batch.fleet.node_facts import NodeFacts, RayNode, alive_nodes
from trtsmith.converter.batch.fleet.task_resources import Cluster
from trtsmith.converter.batch.task import BatchTask, Needs
from trtsmith.converter.engine.build.gpu import Gpu
from trtsmith.converter.model.options.gpu_names import target_of_gpu

MACHINE = MachineFacts({}, {"tensorrt_rtx": "1.7.1"}, "rules")


def node(name: str, accelerators: Sequence[str] = (), gpus: float = 0, gpu: Gpu | None = None) -> NodeFacts:
    return NodeFacts(RayNode(name, name, 8, gpus, 64 << 30, tuple(accelerators)), MACHINE, gpu)


CLUSTER = Cluster(
    [
        node("plain"),
        node("a", ["A100", "A100-40G"], 1),
        node("l", ["L4"], 2),
        node("s", ["L40S"], 4),
        node("g", ["GeForce-RTX-4090"], 8, Gpu("NVIDIA GeForce RTX 4090", (8, 9))),
    ]
)


def gpu_of(one: BatchTask) -> str:
    kind = CLUSTER.resources(one).gpu
    return "" if kind is None else kind.accelerator


def test_rays_own_names_are_the_ones_in_the_table() -> None:
    accelerators: Any = pytest.importorskip("ray.util.accelerators.accelerators")
    names = {value for name, value in vars(accelerators).items() if name.startswith("NVIDIA_")}
    names -= {"TITAN"}
    assert names <= CAPABILITIES.keys(), "a new accelerator of Ray: add its compute capability"
    assert CAPABILITIES.keys() <= names
    assert accelerators_of(["sm89"]) == ["L4", "L40S"]


def test_names_that_targets_have_too_mean_the_same_capability() -> None:
    both = {name: target_of_gpu(name) for name in CAPABILITIES if target_of_gpu(name)}
    assert both == {name: "sm{}{}".format(*CAPABILITIES[name]) for name in both} and len(both) > 8


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        ([], ""),
        (["--flavour", "tensorrt_rtx", "--target", "sm89"], ""),
        (["--verify", "graph"], ""),
        (["--verify", "engine", "--no-verify"], ""),
        (["--flavour=tensorrt"], "GeForce-RTX-4090"),  # of which there are most
        (["--verify=engine", "--target", "sm80,sm86"], "A100"),
        (["--flavour", "tensorrt", "--target", "sm89"], "GeForce-RTX-4090"),
        (["--flavour", "tensorrt", "--target", "a100"], "A100"),
    ],
)
def test_the_gpu_follows_from_the_words(words: list[str], gpu: str) -> None:
    assert gpu_of(task("net", *words)) == gpu


@pytest.mark.parametrize("name", ["L4", "l4", "L40S", "A100", "A100-40G"])
def test_a_gpu_that_is_named(name: str) -> None:
    assert gpu_of(task("net", needs=Needs(gpu=name))).lower() == name.lower()


def test_a_gpu_that_is_named_must_fit_the_target_too() -> None:
    with pytest.raises(LookupError):
        CLUSTER.resources(task("net", "--target=sm89", needs=Needs(gpu="A100")))
    (problem,) = CLUSTER.problems([task("net", "--target=sm90", "--verify=engine")])
    assert problem.what == (
        "the cluster has no GPU of compute capability sm90; it has 8 GeForce-RTX-4090 (sm89), 4 L40S (sm89), 2 L4 (sm89), "
        "1 A100 (sm80), 1 A100-40G (sm80)"
    )
    assert problem.expected == "a machine with one of H100, H200, H20"


def test_what_ray_is_asked_for() -> None:
    asked = CLUSTER.resources(task("net", needs=Needs(gpu="L4", memory_mib=512, cpus=2))).options()
    assert asked == {"num_cpus": 2, "memory": 512 << 20, "num_gpus": 1, "accelerator_type": "L4"}
    assert CLUSTER.resources(task("net")).options() == {"num_cpus": 1.0}


def test_a_cluster_with_tensorrt_alone_builds_on_gpus() -> None:
    facts = NodeFacts(RayNode("n", "n", 8, 1, 1e9, ("H100",)), MachineFacts({}, {"tensorrt": "10.9"}, ""))
    kind = Cluster([facts]).resources(task("net")).gpu
    assert kind is not None and (kind.accelerator, kind.target) == ("H100", "sm90")


def test_nodes_are_read_as_ray_lists_them() -> None:
    class Listing:
        @staticmethod
        def nodes() -> list[dict[str, Any]]:
            resources = {
                "CPU": 4.0,
                "GPU": 2.0,
                "memory": 8.0,
                "accelerator_type:L4": 1.0,
                "node:10.0.0.1": 1.0,
            }
            one = {"Alive": True, "NodeID": "n", "NodeManagerAddress": "10.0.0.1", "Resources": resources}
            return [{**one, "Alive": False}, one, {**one, "Resources": {"GPU": 1.0}}]

    assert alive_nodes(Listing) == [RayNode("n", "10.0.0.1", 4.0, 2.0, 8.0, ("L4",))]
