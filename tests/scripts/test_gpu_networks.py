"""Networks of the GPU checks: PyTorch's run of an ONNX graph against onnxruntime's, and what is allowed to an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from gpucheck.engines import NOT_BUILT, EngineError, OpenEngine
from gpucheck.record import Notes, read_notes
from onnxcoverage.jobs import Finding
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand

torch = pytest.importorskip("torch")

from gpubundle.skeleton import write_skeletons  # noqa: E402
from gpucheck import network_list, networks  # noqa: E402
from gpucheck.float16_sums import Float16Sums  # noqa: E402
from gpucheck.rounded_products import RoundedProducts, to_tf32  # noqa: E402
from gpucheck.torch_graph import TorchGraph  # noqa: E402
from realmodels.real_model import PublicPackage, RealModel  # noqa: E402

RNG = np.random.default_rng(0)


def noise(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


X = noise(2, 4, 9, 12)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}

CASES: list[tuple[str, list[np.ndarray | None], dict[str, Any]]] = [
    (
        "Conv",
        [X, noise(6, 2, 3, 3), noise(6)],
        {"group": 2, "pads": [1, 2, 1, 2], "strides": [2, 1], "dilations": [1, 2]},
    ),
    ("Conv", [noise(2, 4, 9), noise(3, 4, 3)], {}),
    ("ConvTranspose", [X, noise(4, 3, 2, 2), noise(3)], {"strides": [2, 2], "output_padding": [1, 0]}),
    ("BatchNormalization", [X, noise(4), noise(4), noise(4), np.abs(noise(4))], {"epsilon": 1e-3}),
    ("BatchNormalization", [noise(3, 4), noise(4), noise(4), noise(4), np.abs(noise(4))], {}),
    ("MaxPool", [X], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0], "ceil_mode": 1}),
    ("AveragePool", [X], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("GlobalAveragePool", [X], {}),
    ("HardSigmoid", [X], {"alpha": 1 / 6}),
    ("Clip", [X, np.array(-0.5, np.float32), np.array(0.25, np.float32)], {}),
    ("Clip", [X, None, np.array(0.25, np.float32)], {}),
    ("Softmax", [X], {"axis": 3}),
    ("Concat", [X, X], {"axis": 1}),
    ("MatMul", [noise(2, 3, 4), noise(4, 5)], {}),
    ("Transpose", [X], {"perm": [2, 0, 3, 1]}),
    ("Transpose", [noise(3, 5)], {}),
    ("Reshape", [X, ints(0, -1, 3)], {}),
    ("Shape", [X], {}),
    ("Slice", [X, ints(1, 0), ints(4, -2), ints(2, -1), ints(1, 3)], {}),
    ("Slice", [X, ints(1), ints(2)], {}),
    ("Squeeze", [noise(1, 3, 1, 2), ints(2)], {}),
    ("Squeeze", [noise(1, 3, 1, 2)], {}),
    ("ReduceMean", [X], {"axes": [1, 3], "keepdims": 0}),
    ("Resize", [X, None, np.array([1, 1, 2, 3], np.float32)], NEAREST),
    ("Resize", [X, None, None, ints(2, 4, 18, 12)], NEAREST),
    ("Pow", [np.abs(X), np.array(1.5, np.float32)], {}),
    ("Sqrt", [np.abs(X)], {}),
    ("Div", [ints(7, -7, 8), ints(2, 2, -3)], {}),
    ("Sub", [X, noise(12)], {}),
    ("Cast", [X * 3], {"to": 7}),
    ("Sigmoid", [X], {}),
]


def graph_of(op: str, inputs: list[np.ndarray | None], fields: Mapping[str, Any]) -> onnx.ModelProto:
    """One node; all but its first input are initializers, as weights and shapes are."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    first = helper.make_tensor_value_info(
        "x0", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), inputs[0].shape
    )
    constants = [
        numpy_helper.from_array(a, n) for a, n in zip(inputs[1:], names[1:], strict=True) if a is not None
    ]
    out = helper.make_tensor_value_info("y", onnx.TensorProto.UNDEFINED, None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **fields)], "g", [first], [out], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(proto)


@pytest.mark.parametrize(("op", "inputs", "fields"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_pytorch_computes_what_onnxruntime_does(op: str, inputs: Any, fields: Any) -> None:
    proto = graph_of(op, inputs, fields)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x0": inputs[0]})
    found = TorchGraph(proto, "cpu", torch.float64)({"x0": inputs[0]})["y"].numpy()
    assert found.shape == wanted.shape
    assert found.dtype == (np.float64 if wanted.dtype.kind == "f" else wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "fields"),
    [
        ("Conv", [X, noise(6, 4, 3, 3)], {"pads": [0, 1, 1, 1]}),
        ("Softmax", [X], {"axis": 1}),
        ("Slice", [X, ints(3), ints(0), ints(0), ints(-1)], {}),
        ("Resize", [X, None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}),
        ("Erf", [X], {}),
    ],
)
def test_what_the_interpreter_does_not_cover_is_refused(op: str, inputs: Any, fields: Any) -> None:
    with pytest.raises(NotImplementedError):
        TorchGraph(graph_of(op, inputs, fields), "cpu", torch.float64)({"x0": inputs[0]})


def test_the_type_of_a_run_is_that_of_all_its_floats() -> None:
    proto = graph_of("MatMul", [noise(2, 64), noise(64, 5)], {})
    feeds = {"x0": noise(2, 64)}
    exact = TorchGraph(proto, "cpu", torch.float64)(feeds)["y"]
    half = TorchGraph(proto, "cpu", torch.bfloat16)(feeds)["y"]
    assert half.dtype == torch.bfloat16
    assert float((half.double() - exact).norm() / exact.norm()) < 0.1  # whatever the kernel sums in


def test_parameters_of_a_norm_are_float32_beside_halves() -> None:
    """A variance of 1e8 is infinite in float16, and the channel would be its bias alone, which is zero here."""
    wide = np.array([1e8, 1, 2, 3], np.float32)
    proto = graph_of("BatchNormalization", [X * 1e4, noise(4), np.zeros(4, np.float32), noise(4), wide], {})
    feeds = {"x0": X * 1e4}
    exact = TorchGraph(proto, "cpu", torch.float64)(feeds)["y"]
    for dtype in (torch.float16, torch.bfloat16):
        half = TorchGraph(proto, "cpu", dtype)(feeds)["y"]
        assert half.dtype == dtype
        off, size = (x.double().transpose(0, 1).flatten(1).norm(dim=1) for x in (half - exact, exact))
        assert (off / size).max() < 0.1  # whatever the kernel computes in


def test_errors_are_judged_by_the_frameworks() -> None:
    def judged(engine: float, ort: float | None = None, precision: str = "fp32", **found: float) -> Any:
        return networks.compare({"engine": engine, **found}, ort, 1e-5, 200, precision)

    row = judged(1.5e-3, 1e-4, framework=1e-3)
    assert row["passed"] and row["allowed"] == pytest.approx(2e-3) and row["onnxruntime"] == 1e-4
    assert not judged(2.1e-3, framework=1e-3)["passed"]
    assert not judged(1e-4, 0.1, framework=1e-3)["passed"]  # another network
    assert not judged(np.inf, framework=1e-3)["passed"]
    assert not judged(1e-3, precision="fp16", framework=np.inf)["passed"]
    tf32 = judged(3e-3, framework=1e-3, yardstick=2e-3)
    assert tf32["passed"] and tf32["allowed"] == pytest.approx(4e-3) and tf32["yardstick"] == 2e-3
    assert not judged(3e-3, precision="fp16", framework=1e-3)["passed"]
    lost = judged(3e-3, framework=1e-3, yardstick=np.inf)
    assert not lost["passed"] and lost["allowed"] == pytest.approx(2e-3)
    assert judged(1.9e-5, precision="fp16", framework=0.0)["passed"]  # the type alone costs that much


def test_errors_are_those_of_all_sets_together() -> None:
    sets = [{"y": RNG.standard_normal((3, 4)), "z": RNG.standard_normal(2)} for _ in range(120)]
    scales = [1 + 1e-3 * (i % 7) for i in range(118)] + [1.001, -3]
    found = [{n: a * scale for n, a in one.items()} for one, scale in zip(sets, scales, strict=True)]
    size = [np.sum(one["y"] ** 2) for one in sets]
    off = sum(n * (scale - 1) ** 2 for n, scale in zip(size, scales, strict=True))
    exact = networks.Exact(sets)
    assert exact.errors(found)["y"] == pytest.approx(np.sqrt(off / sum(size)))
    assert exact.errors(sets) == {"y": 0, "z": 0}


def test_no_set_may_be_without_numbers() -> None:
    exact = networks.Exact(
        [{"y": RNG.standard_normal((3, 4)), "z": RNG.standard_normal(2)} for _ in range(3)]
    )
    first, second, last = exact.sets
    for wrong in ({"z": last["z"]}, {**last, "y": last["y"].T}, {**last, "y": last["y"] * np.nan}):
        assert exact.errors([first, second, wrong]) == {"y": np.inf, "z": 0}
    with pytest.raises(ValueError, match="argument"):
        exact.errors([first, second])
    with pytest.raises(AssertionError, match="all zeros"):
        networks.Exact([{"y": np.zeros(3)}]).errors([{"y": np.zeros(3)}])


@pytest.fixture(scope="module")
def small_network(tmp_path_factory: pytest.TempPathFactory) -> Any:
    bundle = tmp_path_factory.mktemp("bundle")
    assert [path.name for path in write_skeletons(bundle, ["geometry"], small=True)] == [
        "geometry.skeleton.onnx"
    ]
    patch = pytest.MonkeyPatch()
    patch.setattr(network_list, "DEVICE", "cpu")
    yield network_list.ours("geometry", bundle, small=True)
    patch.undo()


def test_where_outputs_are_decisions_every_batch_is_judged_by_as_many_images(tmp_path: Path) -> None:
    network = network_list.ours("yolo_nms", tmp_path, small=True)
    assert network.ranges["image"].max == (8, 3, 128, 160)
    sets = [network.feeds(size) for size in range(3)]
    assert [(len(some), some[0]["image"].shape[0]) for some in sets] == [(8, 1), (4, 2), (1, 8)]
    together = [np.concatenate([arrays["image"] for arrays in some]) for some in sets]
    assert all(np.array_equal(images, together[0]) for images in together)


@pytest.mark.parametrize("precision", ["float64", "fp16"])
def test_integers_of_inputs_stay_integers(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_list, "DEVICE", "cpu")
    network = network_list.ours("voxel_backbone", tmp_path, small=True)
    feeds = network.feeds(0)
    assert feeds[0]["num_points"].dtype == np.int32
    (right,) = network.framework(feeds, precision)
    assert right["heatmap"].shape == (1, 10, 8, 8) and np.isfinite(right["boxes"]).all()


def opener(scale: float) -> Any:
    def make(path: Path, sizes: Mapping[str, Any], io_types: Any) -> OpenEngine:
        assert sizes["image"].shapes == ((1, 3, 32, 48), (2, 3, 32, 48), (8, 3, 32, 48))
        given = load_model(path)
        assert {node.domain for node in given.proto.graph.node} == {"", "trtsmith"}  # plugins are in it
        model = expand(given)  # onnxruntime knows none
        return OpenEngine(
            lambda feeds: {n: a * np.float32(scale) for n, a in run(model, feeds).items()}, lambda: None
        )

    return make


def test_a_network_is_run_at_every_end_of_its_shapes(small_network: Any, tmp_path: Path) -> None:
    rows = list(networks.judge_network(small_network, ["fp32"], tmp_path, opener(1)))
    assert [(row["size"], row["output"]) for row in rows] == [
        (size, output) for size in ("min", "opt", "max") for output in ("heatmap", "elevation")
    ]
    assert all(row["passed"] and row["engine"] < 1e-5 for row in rows)
    assert [row["onnxruntime"] is None for row in rows] == [False] * 4 + [True] * 2
    wrong = list(networks.judge_network(small_network, ["fp32"], tmp_path, opener(1.01)))
    assert not any(row["passed"] for row in wrong)
    assert networks.failure_text(wrong[0]).startswith("geometry fp32 min heatmap: error 0.01, allowed")


def test_a_network_in_half_precision_is_held_to_pytorchs_half(small_network: Any, tmp_path: Path) -> None:
    forms = ["fp16", *networks.COMPARED]  # onnxruntime, which is the engine here, has no bfloat16
    rows = list(networks.judge_network(small_network, forms, tmp_path, opener(1)))
    assert [row["precision"] for row in rows] == [form for form in forms for _ in range(6)]
    assert all(row["passed"] for row in rows)
    assert all(1e-5 < row["engine"] < 0.1 for row in rows)
    second = {row["precision"]: row.get("yardstick", 0) > row["framework"] for row in rows}
    assert second == {"fp16": True, "fp16 --accumulate fp16": True, "fp16 --accumulate fp32": False}
    assert all(row["onnxruntime"] < 1e-5 for row in rows if row["onnxruntime"] is not None)


def test_a_form_s_flags_reach_the_precision(
    small_network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = networks.in_precision, []

    def spy(result: Any, request: Any, feeds: Any) -> Any:
        asked.append((request.precision, request.accumulate, result.target.flavour))
        return real(result, request, feeds)

    monkeypatch.setattr(networks, "in_precision", spy)
    list(networks.judge_network(small_network, (*networks.FORMS, *networks.COMPARED), tmp_path, opener(1)))
    given = [("fp32", ""), ("fp16", ""), ("bf16", ""), ("fp16", "fp16"), ("fp16", "fp32")]
    assert asked == [(*one, "tensorrt_rtx") for one in given]


def test_errors_are_those_of_all_inputs_of_a_size_together(small_network: Any, tmp_path: Path) -> None:
    """One set of two is computed wrongly: by 1 % of it, that is by less of both."""
    twice = replace(small_network, feeds=lambda size: small_network.feeds(size) * 2)

    def every_other(path: Path, sizes: Mapping[str, Any], io_types: Any) -> OpenEngine:
        engine, runs = opener(1)(path, sizes, io_types), count()
        scales = (np.float32(1), np.float32(1.01))

        def run_engine(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            scale = scales[next(runs) % 2]
            return {name: array * scale for name, array in engine.run(feeds).items()}

        return OpenEngine(run_engine, engine.close)

    (row, *_) = networks.judge_network(twice, ["fp32"], tmp_path, every_other)
    assert row["engine"] == pytest.approx(0.01 / 2**0.5, rel=0.05)


def test_factors_are_rounded_as_tf32_is() -> None:
    """The splitting of Dekker, in float64, rounds to 11 digits as well."""
    x = RNG.standard_normal((64, 48)).astype(np.float32)
    wide = x.astype(np.float64) * (2.0**42 + 1)
    wanted = (wide - (wide - x.astype(np.float64))).astype(np.float32)
    np.testing.assert_array_equal(to_tf32(torch.from_numpy(x)).numpy(), wanted)
    odd = torch.tensor([np.inf, -np.inf, np.nan, 0.0, -0.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11])
    found = to_tf32(odd).numpy()
    np.testing.assert_array_equal(found, np.float32([np.inf, -np.inf, np.nan, 0, -0.0, 1, 1 + 2.0**-9]))
    assert to_tf32(torch.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("op", "inputs", "fields"), [c for c in CASES if c[0] in ("Conv", "ConvTranspose", "MatMul")]
)
def test_products_have_rounded_factors(op: str, inputs: Any, fields: Any) -> None:
    graph = TorchGraph(graph_of(op, inputs, fields), "cpu", torch.float32)
    with RoundedProducts():
        found = graph({"x0": inputs[0]})["y"].double().numpy()
    rounded = [
        a if a is None or i > 1 else to_tf32(torch.from_numpy(a)).numpy() for i, a in enumerate(inputs)
    ]
    exact = TorchGraph(graph_of(op, rounded, fields), "cpu", torch.float64)({"x0": rounded[0]})["y"].numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-6)
    plain = graph({"x0": inputs[0]})["y"].double().numpy()
    assert 1e-5 < np.linalg.norm(plain - found) / np.linalg.norm(plain) < 2e-3


@pytest.mark.parametrize(
    ("body", "shape", "kernel", "count"),
    [
        (lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), (2, 64, 8, 8), (32, 64, 3, 3), 576),
        (lambda x, w: torch.nn.functional.conv2d(x, w, groups=2), (2, 64, 8, 8), (32, 32, 3, 3), 288),
        (
            lambda x, w: torch.nn.functional.conv_transpose2d(x, w, stride=2),
            (2, 64, 8, 8),
            (64, 32, 4, 4),
            256,
        ),
        (torch.nn.functional.linear, (64, 1024), (32, 1024), 1024),
        (torch.matmul, (64, 512), (512, 32), 512),
        (lambda x, w: torch.addmm(torch.zeros(32, dtype=x.dtype), x, w), (64, 512), (512, 32), 512),
        (lambda x, w: torch.einsum("nhd,hde->ne", x, w), (64, 8, 64), (8, 64, 32), 512),
        (lambda x, w: torch.einsum("...d,de->...e", x, w), (64, 512), (512, 32), 512),
    ],
)
def test_float16_sums_have_the_error_that_was_measured(
    body: Any, shape: tuple[int, ...], kernel: tuple[int, ...], count: int
) -> None:
    x, w = (torch.from_numpy(noise(*size)).half() for size in (shape, kernel))
    exact = body(x.double(), w.double())
    with Float16Sums():
        found = body(x, w)
    with Float16Sums():
        assert torch.equal(found, body(x, w))
    error = float((found.double() - exact).norm() / exact.norm())
    assert found.dtype == torch.float16
    assert error == pytest.approx(2.1e-4 * (count / 32 + 0.5) ** 0.5, rel=0.15)
    with Float16Sums():
        assert torch.equal(body(x.float(), w.float()), body(x.float(), w.float()))


def test_a_network_without_an_engine_has_a_row_that_says_why(small_network: Any, tmp_path: Path) -> None:
    def refuse(*_: Any) -> OpenEngine:
        raise EngineError(NOT_BUILT, "no importer")

    (row,) = networks.judge_network(small_network, ["fp32"], tmp_path, refuse)
    assert row == {
        "network": "geometry",
        "precision": "fp32",
        "passed": False,
        "reason": "not built: no importer",
    }
    assert networks.failure_text(row) == "geometry fp32: not built: no importer"


def test_pictures_of_text_differ_and_have_edges() -> None:
    images = network_list.text_images((2, 3, 48, 96))
    assert images.shape == (2, 3, 48, 96) and images.dtype == np.float32
    assert -1 <= images.min() < -0.2 and 0 < images.max() <= 1
    assert not np.array_equal(images[0], images[1])
    assert not np.array_equal(images, network_list.text_images((2, 3, 48, 96), 1))
    np.testing.assert_array_equal(images, network_list.text_images((2, 3, 48, 96)))


def test_networks_are_made_in_the_children_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, bundle: Path) -> Any:
        raise AssertionError(f"{name} was made here")

    def jobs(module: str, pending: Any, *_: Any, bundle: str) -> Any:
        assert (module, bundle) == ("gpucheck.networks", str(tmp_path))
        good, bad, lost = pending[0], pending[1], list(pending)[2:]
        yield (
            good,
            Finding({"rows": [{"network": good, "engine": float("inf"), "passed": True}], "failures": []}),
        )
        yield bad, Finding({"rows": [{"network": bad, "passed": False}], "failures": [f"{bad}: far off"]})
        yield from ((name, Finding({}, "hangs")) for name in lost)

    monkeypatch.setattr(network_list, "network", make)
    monkeypatch.setattr(networks, "run_jobs", jobs)
    networks.check(tmp_path, tmp_path, 60.0, Notes(tmp_path / "notes"))
    found = read_notes(tmp_path / "notes", "networks", "")
    good, bad, *lost = network_list.NAMES
    assert found.rows == [
        {"network": good, "engine": None, "passed": True},
        {"network": bad, "passed": False},
    ]
    assert found.failures == [f"{bad}: far off", *(f"{name}: hangs" for name in lost)]
    assert found.summary.startswith(f"1 of {len(network_list.NAMES)} networks") and found.summary.endswith(
        "in fp32, fp16, bf16"
    )


def test_what_is_shown_beside_the_others_need_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(network: Any, forms: Any, *_: Any) -> Any:
        figures = {"size": "min", "output": "y", "engine": 2.0, "allowed": 1.0, "onnxruntime": None}
        yield from ({"network": "n", "precision": f, "passed": f not in network, **figures} for f in forms)

    def jobs(module: str, pending: Any, *_: Any, bundle: str) -> Any:
        yield from ((name, Finding(networks.work(name, tmp_path, bundle))) for name in list(pending)[:2])

    first, second = network_list.NAMES[:2]
    wrong = {first: networks.COMPARED, second: ("fp16", *networks.COMPARED)}
    monkeypatch.setattr(network_list, "network", lambda name, bundle: wrong[name])
    monkeypatch.setattr(networks, "judge_network", judged)
    monkeypatch.setattr(networks, "run_jobs", jobs)
    networks.check(tmp_path, tmp_path, 60.0, Notes(tmp_path / "notes"))
    told = read_notes(tmp_path / "notes", "networks", "")
    assert told.summary.startswith("1 of 2 networks")
    assert [text.split(":")[0] for text in told.failures] == ["n fp16 min y"]


def test_sets_that_pytorch_is_given_at_once_come_back_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = graph_of("MatMul", [noise(2, 8), noise(8, 5)], {})
    onnx.save(proto, tmp_path / "m.onnx")
    monkeypatch.setattr(network_list, "DEVICE", "cpu")
    monkeypatch.setattr(network_list, "AT_ONCE", 48)  # three sets
    model = RealModel("m", PublicPackage("p", "1", "MIT"), "m.onnx", "", "a product", ("x0=2x8",))
    sets = [{"x0": noise(2, 8)} for _ in range(7)]
    found = network_list.published(model, tmp_path).framework(sets, "float64")
    graph = TorchGraph(proto, "cpu", torch.float64)
    assert len(found) == 7
    for outputs, arrays in zip(found, sets, strict=True):
        np.testing.assert_allclose(outputs["y"], graph(arrays)["y"].numpy(), rtol=1e-12)


def test_every_second_set_of_pictures_is_upside_down() -> None:
    """One line of text at the top of a picture with room for two."""
    for draw in range(4):
        images = network_list.text_images((2, 3, 96, 200), draw)
        upper, lower = images[:, :, :48].std(axis=(2, 3)), images[:, :, 48:].std(axis=(2, 3))
        text, empty = (lower, upper) if draw % 2 else (upper, lower)
        assert (empty < 0.7 * text).all()
