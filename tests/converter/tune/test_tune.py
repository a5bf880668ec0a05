"""`tune` from model to recipe: engines are built, and a stand-in of the GPU runs and times them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import trtsmith
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.main import main
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.recipe import Choices, Recipe, load_recipe
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.tune import lab, tune

TEXT = """<ir_version: 9, opset_import: ["" : 18]> g (float[4, 8] x) => (float[4, 8] y) {
    [first] a = MatMul (x, w)
    [norm] b = LayerNormalization (a, s)
    [second] c = MatMul (b, w)
    [soft] y = Softmax (c)
}"""


def written(folder: Path) -> Path:
    model = onnx.parser.parse_model(TEXT)
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(0, 0.3, (8, 8)), "s": rng.uniform(0.5, 1.5, 8)}
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


_USUAL = 6
"""Of _narrow, what the default has."""


class Card:
    """Stands in for the GPU: runs the graph that was built, and takes time for its Casts and nodes in float32."""

    def __init__(self, original: Path) -> None:
        self._original = load_model(original)
        self.fails_unseen = False

    def answer(self, worker: str, order: Any, request: RunRequest, progress: Any) -> dict[str, Any]:
        assert worker == lab.WORKER
        for place, folder in zip(order.outputs, order.inputs, strict=False):
            outputs = run(self._original, dict(read_arrays(folder)))
            narrow = self._narrow(order.runs[0])
            share = (
                1.0 if self.fails_unseen and narrow > _USUAL and "unseen" in folder.name else 1e-3 * narrow
            )
            write_arrays(
                place, {name: (value * (1 + share)).astype(value.dtype) for name, value in outputs.items()}
            )
        times = [[self._ms(one)] * order.rounds for one in order.runs]
        return {"ms": times, "memory": [0 for _ in order.runs]}

    def _nodes(self, one: RunRequest) -> list[onnx.NodeProto]:
        return list(onnx.load(one.engine_path.parent / "model.onnx").graph.node)

    def _narrow(self, one: RunRequest) -> int:
        """Nodes between Casts to float16 and back: the fewer Casts there are, the more are in float16."""
        nodes = self._nodes(one)
        casts = sum(node.op_type == "Cast" for node in nodes)
        return 0 if not casts else 10 - casts

    def _ms(self, one: RunRequest) -> float:
        return 5.0 - 0.3 * self._narrow(one)


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    made = Card(written(tmp_path))
    monkeypatch.setattr(tune, "find_gpu", lambda: Gpu("a card", (8, 6)))
    monkeypatch.setattr(lab, "checked", lambda request: request)
    monkeypatch.setattr(lab, "answer_of", made.answer)
    monkeypatch.chdir(tmp_path)
    return made


def test_the_recipe_makes_the_engine_again(card: Card, tmp_path: Path) -> None:
    done = trtsmith.tune("model.onnx", "model.plan", max_error=0.02, precisions=["fp16", "fp32"])
    assert done.best is not None and done.default is not None and done.conversion is not None
    assert done.best.ms < done.default.ms
    recipe = load_recipe(tmp_path / "model.recipe.json")
    assert recipe == done.recipe and recipe.choices.precision == "fp16" and recipe.choices.keep_only
    again = trtsmith.convert("model.onnx", "again.plan", recipe="model.recipe.json", verify=None)
    assert again.rewritten.model.proto == done.conversion.rewritten.model.proto
    assert not [text for text in again.warnings if "recipe" in text]


def test_an_output_that_cannot_be_is_refused_before_the_search(card: Card, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the output is a folder(?s:.*)output=\".*/model.plan\""):
        trtsmith.tune("model.onnx", tmp_path, progress=lambda told: pytest.fail(f"it began: {told}"))


def test_a_tight_bound_leaves_float32(card: Card) -> None:
    done = trtsmith.tune("model.onnx", max_error=1e-6, precisions=["fp16", "fp32"])
    assert done.best is not None and done.best.recipe in (Choices(), Choices(as_is=True))


def test_no_engine_within_the_bound_is_said(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Card, "_narrow", lambda self, one: 5)
    with pytest.raises(
        trtsmith.ConversionError, match=r"no engine is within the bound: the smallest error is 0\.005"
    ):
        trtsmith.tune("model.onnx", max_error=1e-4, precisions=["fp16", "fp32"])


def test_samples_that_the_search_did_not_see_judge_the_best(card: Card) -> None:
    np.savez("more.npz", x=np.random.default_rng(1).normal(0, 1, (24, 8)).astype(np.float32))
    asked = {"samples": "more.npz", "max_error": 0.02, "precisions": ["fp16", "fp32"]}
    usual = trtsmith.tune("model.onnx", **asked)
    assert (usual.sets, usual.unseen) == (4, 3)
    card.fails_unseen = True
    careful = trtsmith.tune("model.onnx", **asked)
    assert usual.best is not None and careful.best is not None and careful.best.ms > usual.best.ms


def test_8_bits_are_calibrated_with_the_samples(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, tuple[Any, ...]] = {}

    def recorded(analysis: Any, request: PrecisionRequest, *rest: Any, **given: Any) -> Any:
        asked[request.precision] = request.calibration
        return in_precision(analysis, request, *rest, **given)

    monkeypatch.setattr(lab, "in_precision", recorded)
    np.savez("more.npz", x=np.random.default_rng(1).normal(0, 1, (24, 8)).astype(np.float32))
    trtsmith.tune("model.onnx", samples="more.npz", max_error=0.02)
    assert asked == {"fp16": (), "bf16": (), "int8": (Path("more.npz"),), "fp8": (Path("more.npz"),)}


def test_the_engine_runs_with_its_plugin_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]> '
        "g (float[2, 4, 4] x) => (float[2, 4, 4] y) { y = com.microsoft.Inverse (x) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    made = Card(tmp_path / "model.onnx")
    libraries: list[tuple[Path, ...]] = []

    def answer(worker: str, order: Any, *rest: Any) -> dict[str, Any]:
        libraries.extend(one.plugin_libraries for one in order.runs)
        return made.answer(worker, order, *rest)

    monkeypatch.setattr(tune, "find_gpu", lambda: Gpu("a card", (8, 6)))
    monkeypatch.setattr(lab, "checked", lambda request: request)
    monkeypatch.setattr(lab, "answer_of", answer)
    monkeypatch.chdir(tmp_path)
    trtsmith.tune("model.onnx", max_error=0.02, precisions=["fp32"])
    assert libraries and all([path.name for path in one] == ["libtrtsmith_plugins.so"] for one in libraries)


def test_the_command_shows_what_it_tried(
    card: Card, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "tune",
        "model.onnx",
        "--max-error",
        "0.02",
        "--precisions",
        "fp16,fp32",
        "--json",
        "all.json",
        "--html",
        "all.html",
        "-q",
    ]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "best:" in shown and "recipe:   model.recipe.json" in shown
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["best"]["flags"] in {row["flags"] for row in document["trials"]}
    assert "<title>model.onnx - trtsmith tune</title>" in (tmp_path / "all.html").read_text()


def test_the_plan_needs_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(written(tmp_path)), "--plan", "-q"]) == 0
    shown = capsys.readouterr().out
    assert "--precision fp16: float16 where accuracy allows" in shown
    assert "1 × a norm" in shown and "--as-is: TensorRT's own import" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "p.json"], "--plan writes no file"),
        (["--max-error", "z:0.1"], "the model has no output 'z'"),
        (["--precisions", "int8"], "int8 is calibrated, and there are no samples"),
        (["--minutes", "0"], "'0' is not a positive number of minutes"),
    ],
)
def test_what_a_plan_would_ignore_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["tune", str(written(tmp_path)), "--plan", *words, "-q"])
    except SystemExit as end:  # of argparse
        code = int(str(end.code))
    assert code == 2 and said in capsys.readouterr().err


def test_without_a_gpu_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(written(tmp_path))
    assert main(["tune", model, "-q"]) == 2
    assert "there is no NVIDIA GPU here" in capsys.readouterr().err
    with pytest.raises(trtsmith.UsageError, match="there is no NVIDIA GPU here") as caught:
        trtsmith.tune(model)
    command = caught.value.problems[0].fix.split("`trtsmith ")[1].split("`")[0]
    assert main([*shlex.split(command), "-q"]) == 0
    assert "--precision fp16: float16" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the file is no recipe"),
        ("[]", "the file is no recipe"),
        ('{"choices": {"precision": 3}}', "the file is no recipe"),
        ('{"choices": {"precison": "fp16"}}', "'precison' is no name of a recipe"),
        ('{"choices": {}, "choice": {}}', "'choice' is no name of a recipe"),
        ('{"choices": {}, "format": 9}', "the recipe has format 9"),
    ],
)
def test_a_file_that_is_no_recipe(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=what):
        trtsmith.convert(written(tmp_path), recipe=file)
    with pytest.raises(UsageError, match="cannot be read"):
        trtsmith.convert(written(tmp_path), recipe=tmp_path / "none.json")


def test_flags_beside_a_recipe_that_chooses_them(tmp_path: Path) -> None:
    file = tmp_path / "a.recipe.json"
    file.write_text(Recipe(Choices("fp16")).text())
    with pytest.raises(UsageError, match="precision beside a recipe"):
        trtsmith.convert(written(tmp_path), recipe=file, precision="bf16")


def test_a_recipe_of_another_model_is_warned_of_and_names_what_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "a.recipe.json"
    file.write_text(Recipe(Choices("fp16", ("norm",), keep_only=True), "sha256:other").text())
    done = trtsmith.convert(written(tmp_path), recipe=file, verify=None)
    assert any("measured on another model" in text for text in done.warnings)
    file.write_text(Recipe(Choices("fp16", ("norm", "gone"), keep_only=True)).text())
    with pytest.raises(UsageError, match="no node has the name or the operator 'gone'"):
        trtsmith.convert(written(tmp_path), recipe=file, verify=None)
