"""Builds of graphs that TensorRT-RTX refuses: workarounds are applied or offered, and reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.converter.models import parsed
from tests.processes import children
from tests.refused_models.faults import FAULTS, Piece
from tests.refused_models.networks import CHANNELS, INPUT, SHAPE, network
from trtsmith.converter.base.errors import BuildRefused, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.convert.pipeline import ConvertOptions, convert
from trtsmith.converter.convert.workarounds import building
from trtsmith.converter.convert.workarounds.building import build_mended
from trtsmith.converter.convert.workarounds.float_constants import with_float_constants
from trtsmith.converter.convert.workarounds.refusals import (
    Mended,
    Mitigation,
    Refusals,
    RefusedGraph,
)
from trtsmith.converter.engine.builder.build_request import BuildRequest, Profile
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite import phases
from trtsmith.importers.problem import Problem

PROFILES: tuple[Mapping[str, Profile], ...] = ({INPUT: Profile(SHAPE, SHAPE, SHAPE)},)

HELPS = {
    "squeeze_without_axes": "static-axes",
    "if_on_a_size": "static-axes",
    "scatter_of_more_rows": "static-axes",
    "gathered_int8": "float-constants",
}


def model_with(folder: Path, *faults: str) -> Model:
    """A network of some faults one after the other."""

    def written(piece: Piece) -> str:
        value = piece.value
        for number, name in enumerate(faults):
            own = Piece(value, CHANNELS)
            FAULTS[name](own)
            renamed = onnx.ModelProto()
            renamed.graph.node.extend(own.nodes)
            renamed.graph.initializer.extend(own.initializers)
            text = renamed.SerializeToString().replace(
                b"fault/", f"f{number:03d}/".encode()[-6:].rjust(6, b"f")
            )
            own_again = onnx.ModelProto.FromString(text)
            piece.nodes += own_again.graph.node
            piece.initializers += own_again.graph.initializer
            value = own_again.graph.node[-1].output[0]
        return value

    onnx.save(network(20, written), folder / "given.onnx")
    return load_model(folder / "given.onnx")


def request_in(folder: Path) -> BuildRequest:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return BuildRequest(work / "model.onnx", work / "engine", profiles=PROFILES, flavour="tensorrt_rtx")


def refused(
    folder: Path, fault: str, options: Refusals, say: Callable[[str], None] = str
) -> tuple[Problem, ...]:
    with pytest.raises(BuildRefused) as error:
        build_mended(model_with(folder, fault), request_in(folder), options, say)
    return error.value.problems


@pytest.mark.parametrize("fault", HELPS)
def test_what_helps_and_means_the_same_is_done(tmp_path: Path, fault: str) -> None:
    before, said = children(), list[str]()
    file = tmp_path / "kept.onnx"
    stopped: list[int] = []
    done = build_mended(
        model_with(tmp_path, fault),
        request_in(tmp_path),
        Refusals(file=file),
        said.append,
        lambda: stopped.append(len(said)),
    )
    (mended,) = done.mended
    assert len(stopped) == 1 and stopped[0] <= said.index(mended.warning())  # before anything is mended
    assert mended.mitigation == HELPS[fault]
    assert mended.warning() in said and "TensorRT says: " in mended.said
    assert done.built.engine_path.is_file()
    assert sorted(os.listdir(tmp_path / "work")) == ["engine", "model.onnx"]
    assert children() == before and not file.exists()


def test_several_faults_of_one_model(tmp_path: Path) -> None:
    model = model_with(tmp_path, "gathered_int8", "squeeze_without_axes")
    done = build_mended(model, request_in(tmp_path), Refusals(), lambda text: None)
    assert sorted(one.mitigation for one in done.mended) == ["float-constants", "static-axes"]


def test_without_mending_it_is_offered(tmp_path: Path) -> None:
    file = tmp_path / "kept.onnx"
    (problem,) = refused(tmp_path, "gathered_int8", Refusals(file=file, mend=False))
    assert problem.fix.startswith("--mend: 8-bit constants that are only moved")
    assert f"trtsmith check {file}" in problem.fix and "(Gather) reads" in problem.what
    onnx.checker.check_model(onnx.load(file))
    held = {prop.key for prop in onnx.load(file).metadata_props}
    assert held == {"trtsmith.file", "trtsmith.refusal", "trtsmith.profiles"}
    assert os.listdir(tmp_path / "work") == ["model.onnx"]


def test_what_nothing_helps_says_so_by_offering_nothing(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "loop_until_a_counter", Refusals())
    assert "--mend" not in problem.fix and "(Loop) reads" in problem.what


def test_without_a_reduction_the_refusal_is_as_it_was(tmp_path: Path) -> None:
    said: list[str] = []
    assert "of its" not in refused(tmp_path, "gathered_int8", Refusals(reduce=False), said.append)[0].what
    assert not any("reduction" in text for text in said)


WARP = """
    (float[2, 24, 36, 2] at, float[2, 2, 24, 36] before, float[2, 2, 24, 36] now, float16[2, 32, 24, 36] x,
      float16[2, 24, 36, 2] other, float16[2, 32, 24, 36] first, float16[2, 32, 24, 36] current,
      float16[2, 2, 24, 36] flow)
        => (float16[2, 24, 36, 2] z, float16[2, 100, 24, 36] y) <float one = {1}> {
        place = Sub (at, one)
        z = Cast <to = 10> (place)
        moved = GridSample <align_corners = 1> (before, place)
        sum = Add (now, moved)
        half = Cast <to = 10> (sum)
        second = GridSample <align_corners = 1> (x, other)
        y = Concat <axis = 1> (first, current, second, flow, half)
    }"""
"""What TensorRT-RTX 1.7.1 refuses of the alignment of BasicVSR++ with inputs in float16."""


def test_positions_in_two_types_get_an_identity_before_the_cast(tmp_path: Path) -> None:
    model, request = parsed(tmp_path / "m.onnx", WARP), replace(request_in(tmp_path), profiles=())
    with pytest.raises(BuildRefused, match="ssa_validation"):
        build_mended(model, request, Refusals(reduce=False), str)
    (mended,) = build_mended(model, request, Refusals(), str).mended
    assert mended.mitigation == "identities-before-casts"


MYELIN = (
    "TensorRT refused the model. TensorRT says: IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([shape.cpp:175: "
    "~op_constraints_msg_streamer_t] Error during shape inference of /block.0/Elu_output_0 : f32[{ForeignNode}_shapeInput, "
    "16, 100] = elu(/layers.3/Slice_output_0, /block.0/Elu_alpha), name=/block.0/Elu)"
)


@pytest.mark.parametrize("options", [Refusals(reduce=False), Refusals(reduce=False, mend=False)])
def test_a_fault_that_tensorrts_words_tell_is_mended_without_looking_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Refusals
) -> None:
    """The words are those of the 1.7.1 that refused EnCodec's decoder."""
    built = building.build

    def refusing(request: BuildRequest, *rest: object) -> object:
        nodes = onnx.load(request.onnx_path).graph.node
        if any(node.op_type == "Elu" for node in nodes):
            raise BuildRefused((Problem(MYELIN, str(request.onnx_path), "a graph", "--reduce"),))
        return built(request, *rest)

    monkeypatch.setattr(building, "build", refusing)
    model = parsed(
        tmp_path / "m.onnx", f"(float{[*SHAPE]} {INPUT}) => (float{[*SHAPE]} y) {{ y = Elu({INPUT}) }}"
    )
    if not options.mend:
        with pytest.raises(BuildRefused, match="Elu"):
            build_mended(model, request_in(tmp_path), options, str)
        return
    (mended,) = build_mended(model, request_in(tmp_path), options, str).mended
    assert (mended.mitigation, mended.nodes) == ("written-elu", (("y", "Elu"),))


@pytest.mark.parametrize(
    ("builds", "fix"),
    [
        (
            lambda low, high: low[0] == high[0],
            "TensorRT builds it for one size of the first axis: --shapes x=2x8x4:2x8x16:2x8x32; ",
        ),
        (
            lambda low, high: low[1:] == high[1:],
            "TensorRT builds it for fixed sizes but for the first axis: --shapes x=1x8x16:2x8x16:4x8x16; ",
        ),
        (lambda low, high: low == high, "TensorRT builds it for one shape: --shapes x=2x8x16; "),
        (lambda low, high: False, ""),
    ],
)
@pytest.mark.parametrize("nodes_found", [True, False])
def test_a_profile_with_which_it_builds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: Callable[..., bool], fix: str, nodes_found: bool
) -> None:
    tried: list[Mapping[str, Profile]] = []

    def picky(request: BuildRequest, *_: object) -> None:
        (profile,) = request.profiles
        tried.append(profile)
        if not builds(profile["x"].min, profile["x"].max):
            raise BuildRefused((Problem("std::bad_alloc", str(request.onnx_path), "a graph", "read it"),))

    monkeypatch.setattr(building, "build", picky)
    if not nodes_found:
        monkeypatch.setattr(building, "reduce_refusal", lambda *_, **__: None)
    model = parsed(tmp_path / "m.onnx", "(float[N, 8, L] x) => (float[N, 8, L] y) { y = Relu(x) }")
    profile = {"x": Profile((1, 8, 4), (2, 8, 16), (4, 8, 32))}
    with pytest.raises(BuildRefused) as error:
        build_mended(model, replace(request_in(tmp_path), profiles=(profile,)), Refusals(), str)
    assert error.value.problems[0].fix.startswith(f"{fix}read it") and len(tried) <= 4


def test_a_reduction_that_fails_leaves_the_refusal_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trtsmith.converter.convert.workarounds.building.reduce_refusal", full)
    said: list[str] = []
    assert "only allowed before DQ" in refused(tmp_path, "gathered_int8", Refusals(), said.append)[0].what
    assert any("it failed: [Errno 28]" in text for text in said)


def test_nodes_that_cannot_be_saved_do_not_hide_the_refusal(tmp_path: Path) -> None:
    options = Refusals(file=tmp_path / "none" / "kept.onnx", mend=False)
    refusal, unsaved = refused(tmp_path, "gathered_int8", options)
    assert "only allowed before DQ" in refusal.what and "kept.onnx" not in refusal.fix
    assert "kept.onnx" in unsaved.where


def test_the_verdict_is_on_the_mended_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mitigation that changes numbers is found out."""

    def wrong(given: RefusedGraph) -> Model | None:
        mended = with_float_constants(given)
        if mended is not None:
            (scale,) = (t for t in mended.proto.graph.initializer if t.name == "fault/real/scale")
            scale.CopyFrom(numpy_helper.from_array(np.array(0.3, np.float32), scale.name))
        return mended

    for phase in ("fold_moves", "dequantize_constants"):  # which would mend it before
        monkeypatch.setattr(phases, phase, lambda graph: ())
    monkeypatch.setattr(building, "MITIGATIONS", (Mitigation("wrong", "so", "it is said to be", wrong),))
    path = tmp_path / "m.onnx"
    onnx.save(network(8, FAULTS["gathered_int8"]), path)
    shapes = {INPUT: ShapeRange(SHAPE, SHAPE, SHAPE)}
    done = convert(ConvertOptions(path, None, shapes=shapes, flavour="tensorrt_rtx"), lambda text: None)
    assert [one.mitigation for one in done.mended] == ["wrong"]
    assert done.verdict is not None and not done.passed


def test_options() -> None:
    beside = Refusals().beside(Path("e.plan"))
    assert beside == Refusals(file=Path("e.plan.refused.onnx"))
    assert Refusals().beside(None).file is None
    assert Refusals(file=Path("named.onnx")).beside(Path("e.plan")).file == Path("named.onnx")
    with pytest.raises(UsageError, match="--mend-with"):
        Refusals(allowed=("identities",))
    with pytest.raises(UsageError, match="--reduce-timeout"):
        Refusals(reduce_timeout=0)


def test_a_warning_names_the_first_node() -> None:
    mended = Mended("identities", "so", (("a", "Relu"), ("b", "Neg"), ("c", "Abs")), "why")
    assert "node 'a' (Relu) and 2 others; mended by identities: so" in mended.warning()
