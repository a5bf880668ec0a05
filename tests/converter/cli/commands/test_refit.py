"""trtsmith refit, with stand-ins for the builder and for TensorRT's refitter, which works as onnx-tensorrt's does.

An engine of theirs is the JSON of the weights that TensorRT would know by name, and of those values that it compiled in.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.converter.cli.commands.running import Cli, refused, refuses
from tests.converter.engine.runtime.fakes import (
    FakeDevice,
    FakeEngine,
    FakePlan,
    FakeTensor,
    FakeTensorRT,
    flavour_of,
    log_of,
)
from tests.converter.models import written
from trtsmith.converter.convert import destination, refitting
from trtsmith.converter.convert.workarounds.building import MendedBuild
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.bundle.device_folder import not_built
from trtsmith.converter.engine.bundle.manifest import read_document
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime import loading, run_in_child
from trtsmith.converter.engine.runtime.refit_worker import refit
from trtsmith.converter.engine.runtime.run_in_child import checked
from trtsmith.converter.engine.runtime.run_request import RefitRequest
from trtsmith.converter.model.save import save_model

NET = """(float[n, 3, 6, 6] x) => (float[n, 4, 6, 6] y) {
    [first] s = Conv <pads = [1, 1, 1, 1]> (x, a)
    [norm] t = BatchNormalization (s, scale, shift, mean, variance)
    [second] offsets = Conv <pads = [1, 1, 1, 1]> (t, b)
    [dcn] d = mmcv.MMCVDeformConv2d <stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1, deform_groups = 1>
        (t, offsets, w)
    [low] y = Clip (d, least, most)
}"""
"""The deformable convolution becomes a plugin, and its weights w are one of the plugin's inputs."""

FOLDED = ("scale", "shift", "mean", "variance")
COMPILED_IN = ("least", "most")
"""What TensorRT makes a parameter of a layer, and no weight."""


def weights_of(seed: int, **others: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"a": (4, 3, 3, 3), "b": (18, 4, 3, 3), "w": (4, 4, 3, 3), **dict.fromkeys(FOLDED, (4,))}
    drawn = {name: rng.uniform(0.1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    return {**drawn, "least": np.float32([-8])[0], "most": np.float32([8])[0], **others}


def named(model: onnx.ModelProto) -> Iterator[tuple[str, np.ndarray]]:
    """Weights as the parser calls them, of a graph without others inside it."""
    for tensor in model.graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor)
    for node in model.graph.node:
        if node.op_type == "Constant":
            yield node.output[0], numpy_helper.to_array(node.attribute[0].t)


def engine_of(graph: Path) -> dict[str, Any]:
    """What an engine of the graph holds; the four of the normalisation as one weight."""
    held = dict(named(onnx.load(graph)))
    fixed = {name: held.pop(name).tolist() for name in COMPILED_IN if name in held}
    folded = [
        held.pop(name).tolist() for name in FOLDED if name in held
    ]  # in fp16 there is no normalisation any more
    weights = {name: array.tolist() for name, array in held.items()}
    return {"weights": weights | ({"norm": folded} if folded else {}), "fixed": fixed}


class Refitter:
    def __init__(self, engine: FakeEngine, logger: object) -> None:
        self.held = engine.trt.held
        self.set: dict[str, Any] = {}

    def get_all_weights(self) -> list[str]:
        return [*self.held["weights"]]

    def get_missing_weights(self) -> list[str]:
        return [name for name in self.held["weights"] if name not in self.set]

    def refit_cuda_engine(self) -> bool:
        self.held["weights"] = {name: self.set[name] for name in self.held["weights"]}
        return True


class OnnxParserRefitter:
    def __init__(self, refitter: Refitter, logger: object) -> None:
        self.refitter, self.num_errors = refitter, 0

    def refit_from_file(self, path: str) -> bool:
        new = engine_of(Path(path))["weights"]
        self.refitter.set = {
            name: value for name, value in new.items() if name in self.refitter.held["weights"]
        }
        return not self.refitter.get_missing_weights()


class Double(FakeTensorRT):
    """plan: of every engine. held: what the file of the engine has. flags: how it was serialised."""

    def __init__(self, held: dict[str, Any], again: bool = True) -> None:
        plan = FakePlan(
            (FakeTensor("x", "FLOAT", (1,)),), (FakeTensor("y", "FLOAT", (1,)),), lambda arrays: arrays
        )
        super().__init__(FakeDevice(), {json.dumps(held).encode(): plan})
        self.held, self.flags = held, {"EXCLUDE_WEIGHTS"}
        self.Refitter, self.OnnxParserRefitter = Refitter, OnnxParserRefitter
        self.SerializationFlag = IntEnum(
            "SerializationFlag", ["EXCLUDE_WEIGHTS", "INCLUDE_REFIT"][: 1 + again]
        )


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """again: whether this TensorRT has INCLUDE_REFIT. lost: a weight that its parser does not find. made: each double.
    loaded: plugin libraries.
    """
    told = SimpleNamespace(again=True, lost="", made=[], loaded=[])

    def build(model: Any, request: Any, *_: object) -> MendedBuild:
        save_model(model, request.onnx_path)
        request.engine_path.write_text(json.dumps(engine_of(request.onnx_path)))
        return MendedBuild(
            replace(not_built(model, request), targets=("sm90",), version="10.13.2.6"), model, ()
        )

    def run_child(module: str, text: str, flavour: str, **_: object) -> dict[str, Any]:
        request = RefitRequest.from_json(text)
        held = json.loads(request.run.engine_path.read_text())
        if told.lost:
            held["weights"][told.lost] = [0]
            request.run.engine_path.write_text(json.dumps(held))
        double = Double(held, told.again)
        told.made.append(double)
        return refit(request, flavour_of(double), Gpu("Fake GPU", (9, 0)), log_of(double))

    def serialised(engine: FakeEngine, config: Any) -> bytes:
        return json.dumps(engine.trt.held).encode()

    def config(engine: FakeEngine) -> SimpleNamespace:
        flags = engine.trt.flags
        return SimpleNamespace(
            clear_flag=lambda flag: flags.discard(flag.name), set_flag=lambda flag: flags.add(flag.name)
        )

    monkeypatch.setattr(FakeEngine, "create_serialization_config", config, raising=False)
    monkeypatch.setattr(FakeEngine, "serialize_with_config", serialised, raising=False)
    monkeypatch.setattr(loading, "load_plugins", lambda _, libraries, log: told.loaded.extend(libraries))
    monkeypatch.setattr(destination, "check_settings", lambda *_: None)
    monkeypatch.setattr(destination, "build_mended", build)
    monkeypatch.setattr(refitting, "checked", lambda request: request)
    monkeypatch.setattr(refitting, "run_child", run_child)
    return told


Converted = Callable[[str], None]


@pytest.fixture
def converted(here: Path, cli: Cli, doubles: SimpleNamespace) -> Converted:
    """e.plan of m.onnx, converted with some flags; and new.onnx, the same network with other weights."""

    def convert(flags: str) -> None:
        written(here / "m.onnx", NET, weights_of(1))
        written(here / "new.onnx", NET, weights_of(2))
        ran = cli(
            f"convert m.onnx -o e.plan --no-verify --flavour tensorrt --shapes x=1x3x6x6:2x3x6x6:5x3x6x6 {flags}"
        )
        assert ran.code == 0, ran

    return convert


@pytest.mark.parametrize(
    "flags", ["--refit", "--refit --precision fp16", "--refit --precision fp16 --io-precision"]
)
def test_new_weights_reach_layers_and_plugins(
    flags: str, here: Path, cli: Cli, converted: Converted, doubles: SimpleNamespace
) -> None:
    converted(flags)
    before = json.loads(Path("e.plan").read_text())["weights"]
    ran = cli("refit e.plan --onnx new.onnx -o there.plan -q")
    assert ran.code == 0 and " changed; TensorRT was given " in ran.out, ran
    after = json.loads(Path("there.plan").read_text())["weights"]
    suffix, kind = ("/float16", np.float16) if "fp16" in flags else ("", np.float32)
    for name in ("b", "w"):  # w is the plugin's
        assert np.array_equal(np.array(after[name + suffix], kind), weights_of(2)[name].astype(kind)), name
    same = {name for name in after if after[name] == before[name]}
    assert same == {
        f"{name}{suffix}" for name in COMPILED_IN if suffix
    }  # a, in fp16 with the normalisation in it
    request = request_for(here / "there.plan")  # a bundle like any other, with the plugin library
    assert request.plugin_libraries == (here / "libtrtsmith_plugins.so",)
    assert [path.name for path in doubles.loaded] == ["libtrtsmith_plugins.so"]
    old, new = read_document(here / "e.manifest.json"), read_document(here / "there.manifest.json")
    assert new["refitted_from"] == {"engine": old["files"]["e.plan"], "model": old["model"]}
    assert (
        new["model"]["file"] == "new.onnx" and new["verdict"] is None and new["settings"] == old["settings"]
    )
    assert cli("refit there.plan --onnx m.onnx -o back.plan -q").code == 0  # and back
    assert json.loads(Path("back.plan").read_text())["weights"] == before


@pytest.mark.parametrize("again", [True, False])
def test_a_stripped_engine_gets_its_weights(
    again: bool, here: Path, cli: Cli, converted: Converted, doubles: SimpleNamespace
) -> None:
    converted("--strip-plan")
    refused(cli("run e.plan"), 2, "trtsmith refit e.plan --onnx m.onnx;")
    doubles.again = again
    assert cli("refit e.plan --onnx m.onnx -q").code == 0  # in its own place
    assert doubles.made[0].flags == ({"INCLUDE_REFIT"} if again else set())
    settings = read_document(here / "e.manifest.json")["settings"]
    assert settings == {"refit": again} and request_for(here / "e.plan").targets == ("sm90",)
    if not again:  # TensorRT cannot refit what it gave weights to
        refuses(cli, 2, "refit e.plan --onnx m.onnx", "cannot be replaced")


SMALLER = (
    {"a": np.zeros((4, 3, 1, 1), np.float32)},
    ("pads = [1, 1, 1, 1]> (x, a)", "pads = [0, 0, 0, 0]> (x, a)"),
)


@pytest.mark.parametrize(
    ("changed", "text", "said"),
    [
        (*SMALLER, ("weight 'a'", "float32[4, 3, 1, 1]", "float32[4, 3, 3, 3]", "'first' (Conv)")),
        ({"c": weights_of(2)["b"]}, ("(t, b)", "(t, c)"), ("'b' is missing", "no weight 'c'")),
        ({}, ("Clip (d, least, most)", "Relu (d)"), ("'low' (Relu)", "'low' (Clip)")),
        (
            {},
            ("padding = [1, 1], dilation = [1, 1]", "padding = [2, 2], dilation = [2, 2]"),
            ("(1 differ)", "'dcn/"),
        ),
        ({"most": np.float32(6)}, ("", ""), ("'most'", "compiled into the engine", "the engine has 4")),
    ],
)
def test_another_structure_is_refused_and_nothing_is_written(
    changed: Mapping[str, Any],
    text: tuple[str, str],
    said: tuple[str, ...],
    here: Path,
    cli: Cli,
    converted: Converted,
) -> None:
    converted("--refit")
    held = weights_of(2, **changed)
    if "c" in held:
        del held["b"]
    written(here / "new.onnx", NET.replace(*text), held)
    refuses(cli, 2, "refit e.plan --onnx new.onnx", *said)


def test_what_tensorrt_misses_is_named(cli: Cli, converted: Converted, doubles: SimpleNamespace) -> None:
    converted("--refit")
    held = Path("e.plan").read_text()
    doubles.lost = "fused"
    refused(cli("refit e.plan --onnx new.onnx"), 2, "no new value of the weight 'fused'")
    assert json.loads(Path("e.plan").read_text())["weights"].keys() - json.loads(held)["weights"].keys() == {
        "fused"
    }


def test_engines_that_cannot_be_refitted(here: Path, cli: Cli, converted: Converted) -> None:
    converted("")
    refuses(cli, 2, "refit e.plan --onnx new.onnx", "cannot be replaced", "convert --refit")
    (here / "e.manifest.json").unlink()
    refuses(cli, 2, "refit e.plan --onnx new.onnx", "no manifest")
    refuses(cli, 2, "refit none.plan --onnx new.onnx", "no such file")


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("precision", "int8", "calibrated for int8"),
        ("mended", [{"mitigation": "one"}], "was mended"),
        (
            "frozen",
            [{"name": "k", "dtype": "int64", "shape": [999], "sha256": "", "value": None}],
            "the hash",
        ),
    ],
)
def test_graphs_that_are_not_made_anew(
    entry: str, value: Any, said: str, here: Path, cli: Cli, converted: Converted
) -> None:
    converted("--refit")
    document = dict(read_document(here / "e.manifest.json"))
    (here / "e.manifest.json").write_text(json.dumps(document | {entry: value}))
    refuses(cli, 2, "refit e.plan --onnx new.onnx", said)


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_a_gpu_is_needed(cli: Cli, converted: Converted, monkeypatch: pytest.MonkeyPatch) -> None:
    converted("--refit")
    document = dict(read_document(Path("e.manifest.json")))
    document["tensorrt"] = {"flavour": "tensorrt_rtx", "version": "1.7.1.116"}
    Path("e.manifest.json").write_text(json.dumps(document))
    monkeypatch.setattr(refitting, "checked", checked)
    monkeypatch.setattr(run_in_child, "find_gpu", lambda: None)
    refuses(cli, 2, "refit e.plan --onnx new.onnx", "no NVIDIA GPU")
