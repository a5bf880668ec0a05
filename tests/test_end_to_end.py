"""Export, conversion with the real TensorRT-RTX, and bundling: small versions of the models, and every alias."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from tests.converter.cli.commands.running import trtsmith
from tests.converter.models import save, value
from tests.exports import exported
from tests.importers.foreign import EXAMPLES, Example
from tests.importers.lowered import results, tensors_of
from tests.importers.running import types_of
from trtsmith.importers.registry import OPS, by_name, own_alias

MODELS = {
    "deformable_detr": {"MultiscaleDeformableAttentionFromOffsets"},
    "deformable_detr_grid_sample": {"MultiscaleDeformableAttentionFromOffsets"},
    "dino_decoder": {"MultiscaleDeformableAttentionFromOffsets"},
    "bevformer_layer": {"MultiscaleDeformableAttentionFromOffsets"},
    "basicvsrpp_alignment": {"ModulatedDeformableConvolution"},
    "centernet_dcn": {"ModulatedDeformableConvolution"},
    "geometry": {"MatrixInverse"},
    "yolo_nms": {"DetectionSelection"},
    "bevdet_view": {"BevPool"},
    "voxel_backbone": {
        "VoxelGeneration",
        "SubmanifoldRulebook",
        "StridedRulebook",
        "RulebookConvolution",
    },
    "rotated_detector": {"PyramidRotatedRegionAlign", "RotatedBoxSelection"},
    "vision_mamba": {"StateSpaceScan"},
    "pointnet2": {"FarthestPointSampling", "BallNeighbours"},
    "sparse4d_head": {"FeatureAggregation"},
}

SAID = {"pointnet2": "of points equally far away the lowest number comes first"}
"""Warnings that a model gives rise to."""


@pytest.mark.parametrize("name", MODELS)
def test_models(
    name: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = exported(name, tmp_path_factory)
    shapes = []
    for entry in onnx.load(files.model, load_external_data=False).graph.input:
        dims = [d.dim_value or 0 for d in entry.type.tensor_type.shape.dim]
        ranges = ["x".join(str(d or batch) for d in dims) for batch in (1, 2, 4)]
        shapes += ["--shapes", f"{entry.name}={':'.join(ranges)}"]
    engine = tmp_path / "out" / "model.plan"
    engine.parent.mkdir()
    ran = trtsmith(
        capsys, "convert", files.model, "-o", engine, "-q", "--inputs", files.inputs, "--expected",
        files.expected, "--report", tmp_path / "report.json", *shapes,
    )  # fmt: skip
    unsaid = [line for line in ran.err.splitlines() if SAID.get(name, "\n") not in line]
    assert (ran.code, unsaid) == (0, []), ran
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"]["status"] == "agree" and report["routes"]["plugin"] > 0
    assert len(report["engine"]["plugin_layers"]) == report["routes"]["plugin"]
    check_bundle(engine, MODELS[name])


def check_bundle(engine: Path, operators: set[str]) -> None:
    manifest = json.loads(engine.with_suffix(".manifest.json").read_text())
    assert manifest["plugins"] == [f"trtsmith::{name} version 1" for name in sorted(operators)]
    assert manifest["files"] == {
        name: "sha256:" + hashlib.sha256((engine.parent / name).read_bytes()).hexdigest()
        for name in (engine.name, "libtrtsmith_plugins.so")
    }
    assert manifest["verdict"]["status"] == "agree"


def test_every_alias_has_an_example() -> None:
    known = {(op.name, s.op_type) for op in OPS for s in (*op.aliases, own_alias(op))}
    assert {(e.op, e.op_type) for e in EXAMPLES} == known


@pytest.mark.parametrize("opset", [18, 19, 22])
def test_every_alias_becomes_an_engine(
    opset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All foreign examples are nodes of one model; opset 19 and 22 differ in ONNX's own DeformConv."""
    nodes: list[onnx.NodeProto] = []
    inputs, outputs, weights, feeds, expected = [], [], {}, {}, {}
    for index, (example, domain) in enumerate(aliases(opset)):
        prefix = f"e{index}_"
        arrays = example.inputs()
        for name, array in arrays.items():
            if array is None:
                continue
            if name in example.constants:
                weights[prefix + name] = array
            else:
                feeds[prefix + name] = array
                inputs.append(value(prefix + name, array.shape, oh.np_dtype_to_tensor_dtype(array.dtype)))
        names = [prefix + name if array is not None else "" for name, array in arrays.items()]
        made = [f"{prefix}y{number}" for number, _ in enumerate(results(example))]
        node = oh.make_node(example.op_type, names, made, domain=domain, **example.attributes)
        node.name = f"{prefix}n"
        nodes.append(node)
        op = by_name()[example.op]
        wanted = example.expected(tensors_of(example))
        variables = example.types or [port.type for port in op.outputs]
        for name, array, variable in zip(made, wanted, variables[: len(made)], strict=True):
            expected[name] = array.astype(types_of(op)[variable])
            shape = [f"{name}_{axis}" for axis in range(array.ndim)] if op.data_dependent else array.shape
            outputs.append(value(name, shape, oh.np_dtype_to_tensor_dtype(expected[name].dtype)))
    save(tmp_path / "m.onnx", nodes, inputs, outputs, weights, opset=opset)
    np.savez(tmp_path / "x.npz", **feeds)
    np.savez(tmp_path / "y.npz", **expected)
    engine = tmp_path / "m.plan"
    alike = [name for name, array in expected.items() if array.size >= 16 and np.all(array == array.flat[0])]
    assert len(alike) * 100 < len(expected)
    ran = trtsmith(
        capsys, "convert", tmp_path / "m.onnx", "-o", engine, "-q", "--inputs", tmp_path / "x.npz", "--expected",
        tmp_path / "y.npz", "--report", tmp_path / "report.json",
        *(word for name in alike for word in ("--not-compared", name)),
    )  # fmt: skip
    assert ran.code == 0 and "error" not in ran.err, ran  # TensorRT warns of int64 inputs
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["engine"]["plugin_layers"]) == len(nodes) and report["verdict"]["status"] == "agree"
    check_bundle(engine, {example.op for example, _ in aliases(opset)})


def aliases(opset: int) -> list[tuple[Example, str]]:
    """Examples that a model of this opset can hold: in opset 18 each in one of its domains, the next one in the next.

    tests/importers/test_aliases.py has each of them in all.
    """
    if opset > 18:
        return [(e, e.domain) for e in EXAMPLES if e.op_type == "DeformConv" and e.version == opset]
    own = [(op.name, alias) for op in OPS for alias in (*op.aliases, own_alias(op))]
    found = []
    for index, e in enumerate(e for e in EXAMPLES if e.op_type != "DeformConv"):
        meant = [alias for op, alias in own if (op, alias.op_type) == (e.op, e.op_type)]
        if len(meant) > 1:  # the domain tells them apart, or attributes
            meant = [one for one in meant if e.domain in one.domains] or [
                one for one in meant if e.attributes.keys() <= {attr.name for attr in one.attributes}
            ]
        anywhere = [] if onnx.defs.has(e.op_type) else [""]
        known = list(dict.fromkeys((e.domain, *meant[0].domains, *anywhere, "trt.plugins")))
        found.append((e, known[index % len(known)]))
    return found
