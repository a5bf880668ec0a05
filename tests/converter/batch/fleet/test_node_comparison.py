"""Machines of a cluster that would not give the same results are named, all of them at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.fleet.node_comparison import machine_problems
from trtsmith.converter.batch.fleet.node_facts import NodeFacts, RayNode
from trtsmith.converter.engine.build.gpu import Gpu

HERE = MachineFacts(
    {"trtsmith": "0.1.0", "onnx": "1.23.2"}, {"tensorrt_rtx": "1.7.1"}, rules="a" * 64, plugins="b" * 64
)
H100 = Gpu("NVIDIA H100", (9, 0))


def node(name: str, machine: MachineFacts = HERE, **more: Any) -> NodeFacts:
    return NodeFacts(
        RayNode(name * 8, f"10.0.0.{ord(name)}", 8, 0, 1e9), machine, host=f"host-{name}", **more
    )


def test_machines_that_are_alike_have_no_problems() -> None:
    assert machine_problems(HERE, [node("a"), node("b")]) == []
    # the driver is no machine that runs tasks: its packages are its own affair
    assert (
        machine_problems(replace(HERE, flavours={}, versions={"trtsmith": "0.1.0"}), [node("a"), node("b")])
        == []
    )


def test_another_trtsmith_is_named_on_every_machine_that_has_it() -> None:
    problems = machine_problems(
        HERE,
        [
            node("a", replace(HERE, versions={"trtsmith": "0.2.0"}, rules="c" * 64)),
            node("b"),
            node("c", replace(HERE, plugins="")),
            node("d", replace(HERE, operators="d" * 64, packages=None)),
            NodeFacts(
                RayNode("e" * 8, "10.0.0.101", 8, 0, 1e9),
                error="ModuleNotFoundError: No module named 'trtsmith'",
            ),
        ],
    )
    said = {problem.where.split(", ")[0]: problem.what for problem in problems}
    assert said.keys() == {"host-a", "host-c", "host-d", "10.0.0.101 (node eeeeeeee)"}
    assert "version 0.2.0 there, 0.1.0 here; sources cccccccccccc there, aaaaaaaaaaaa here" in said["host-a"]
    assert "plugin library none there, bbbbbbbbbbbb here" in said["host-c"]
    assert "operators of installed packages that cannot be read there, none here" in said["host-d"]
    assert "No module named 'trtsmith'" in said["10.0.0.101 (node eeeeeeee)"]


def test_several_versions_of_a_package_are_a_problem() -> None:
    newer = replace(
        HERE, flavours={"tensorrt_rtx": "1.8.0"}, versions={"trtsmith": "0.1.0", "onnx": "1.24.0"}
    )
    problems = machine_problems(HERE, [node("a"), node("b", newer), node("c")])
    assert [problem.what for problem in problems] == [
        f"the machines have several versions of {name} on host-b, 10.0.0.98 (node bbbbbbbb); {usual} on the others"
        for name, usual in (("onnx: 1.24.0", "1.23.2"), ("tensorrt_rtx: 1.8.0", "1.7.1"))
    ]
    assert problems[1].fix == "install tensorrt_rtx 1.7.1 there"


def test_tensorrt_is_of_use_where_there_is_a_gpu() -> None:
    both = replace(HERE, flavours={"tensorrt_rtx": "1.7.1", "tensorrt": "10.9"})
    assert machine_problems(HERE, [node("a"), node("b", both, gpu=H100), node("c", both, gpu=H100)]) == []
    (problem,) = machine_problems(HERE, [node("a"), node("b", both, gpu=H100), node("c", gpu=H100)])
    assert "several versions of tensorrt: " in problem.what and "none" in problem.what
