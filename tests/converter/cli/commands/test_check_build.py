"""trtsmith check --build, and the commands' output, files and exit codes for a graph that TensorRT refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.refused_models.faults import FAULTS
from tests.refused_models.networks import INPUT, SHAPE, network
from trtsmith import check
from trtsmith.converter.rewrite import phases, rewrite

SIZE = "x".join(map(str, SHAPE))
SHAPES = f"--shapes {INPUT}={SIZE}"


@pytest.fixture(autouse=True)
def models(here: Path) -> None:
    onnx.save(network(12), "plain.onnx")
    onnx.save(network(12, FAULTS["squeeze_without_axes"]), "refused.onnx")


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the profile decides, which mends the fault before TensorRT sees it."""
    monkeypatch.setattr(phases, "decide_by_profile", lambda graph, ranges: ())
    monkeypatch.setattr(rewrite, "with_fixed_sizes", lambda model, profile: model)


def test_a_build_is_tried_and_nothing_written(cli: Cli) -> None:
    before = sorted(os.listdir())
    ran = cli(f"check plain.onnx --build {SHAPES} --target rtx-4090 --report r.json")
    last = ran.out.splitlines()[-1]
    assert ran.code == 0 and "; convertible: tensorrt_rtx 1." in last and " builds it for sm89, in " in last
    assert sorted(os.listdir()) == sorted([*before, "r.json"])
    document = json.loads(Path("r.json").read_text())
    assert document["convertible"] and document["build"]["built"] and document["build"]["targets"] == ["sm89"]


def test_without_a_build_it_is_said_that_none_was_tried(cli: Cli) -> None:
    ran = cli("check refused.onnx")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].endswith("every node has a route; building was not tried (--build)")
    document = json.loads(cli("check refused.onnx --json").out)
    assert document["convertible"] is True and document["build"] is None


def test_a_refusal_is_a_problem_that_names_the_node(cli: Cli) -> None:
    ran = cli(f"check refused.onnx --build {SHAPES} --no-mend --refused nodes.onnx --report r.json")
    said = "requires dimension 0 to not be 1"
    refused(ran, 1, said, "node 'fault/squeeze' (Squeeze)", "--mend: ", "nodes.onnx")
    assert "not convertible: every node has a route, but TensorRT does not build the graph" in ran.out
    assert [node.name for node in onnx.load("nodes.onnx").graph.node] == ["fault/squeeze"]
    document = json.loads(Path("r.json").read_text())
    assert (document["convertible"], document["build"]) == (False, {"built": False})
    assert "fault/squeeze" in document["problems"][0]["what"]
    (given,) = onnx.load("nodes.onnx").graph.input
    refused(cli(f"check nodes.onnx --build --no-mend --shapes {given.name}={SIZE}"), 1, said)


def test_what_is_mended_is_said(cli: Cli) -> None:
    ran = cli(f"check refused.onnx --build {SHAPES}")
    assert ran.code == 0 and "mended by static-axes" in ran.out and "; convertible: " in ran.out


def test_convert_reports_what_it_mended(cli: Cli) -> None:
    ran = cli(f"convert refused.onnx -o e.plan {SHAPES} --report r.json")
    assert ran.code == 0 and "verdict: agree" in ran.out
    assert "warning: TensorRT refused the graph because of node 'fault/squeeze' (Squeeze)" in ran.err
    manifest = json.loads(Path("e.manifest.json").read_text())
    (mended,) = manifest["mended"]
    assert mended["mitigation"] == "static-axes" and mended["nodes"] == [["fault/squeeze", "Squeeze"]]
    assert json.loads(Path("r.json").read_text())["mended"] == manifest["mended"]
    assert not Path("e.plan.refused.onnx").exists()


def test_convert_saves_the_nodes_beside_its_output(cli: Cli) -> None:
    before = sorted(os.listdir())
    ran = cli(f"convert refused.onnx -o e.plan {SHAPES} --no-mend")
    refused(ran, 1, "fault/squeeze", "e.plan.refused.onnx")
    assert sorted(os.listdir()) == sorted([*before, "e.plan.refused.onnx"])
    ran = cli(f"convert refused.onnx -o f.plan {SHAPES} --no-reduce")
    refused(ran, 1, "requires dimension 0 to not be 1")
    assert "reduction" not in ran.err and not Path("f.plan.refused.onnx").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--target sm86", "--target only applies with --build"),
        ("--refused r.onnx", "--refused only applies with --build"),
        ("--build --refused plain.onnx", "--refused plain.onnx"),
        ("--build --refused none/r.onnx", "--refused none/r.onnx"),
    ],
)
def test_flags_that_cannot_be(flags: str, words: str, cli: Cli) -> None:
    refused(cli(f"check plain.onnx {SHAPES} {flags}"), 2, words)


def test_the_function_does_as_the_command() -> None:
    found = check("refused.onnx", build=True, shapes={INPUT: SHAPE}, mend=False, refused="nodes.onnx")
    (problem,) = found.problems
    assert not found.convertible and found.plan.convertible and found.built is None
    assert found.refusal == (problem,) and "'fault/squeeze' (Squeeze)" in problem.where
    assert Path("nodes.onnx").is_file()
    assert check("refused.onnx").built is None
