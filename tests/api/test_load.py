"""`trtsmith.load` builds a model's engine once, and takes it from the cache afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

import trtsmith
from tests.converter.models import inverse
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.runtime import engine_module

OPTIONS = {
    "shapes": {"x": [(1, 4, 4), (1, 4, 4), (8, 4, 4)]},
    "target": ["sm86"],
    "no_verify": True,
    "sparsity": "enable",
}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, dict[str, Any]]]:
    """The engines that are loaded, in the place of a GPU."""
    found: list[tuple[bytes, dict[str, Any]]] = []

    def stand_in(engine: Any, **how: Any) -> Any:
        path = Path(engine)
        assert path.with_name("libtrtsmith_plugins.so").is_file()
        found.append((path.read_bytes(), how))
        return len(found)

    monkeypatch.setattr(engine_module, "load", stand_in)
    return found


def test_a_model_is_converted_once(tmp_path: Path, loaded: list[tuple[bytes, dict[str, Any]]]) -> None:
    pytest.importorskip("tensorrt_rtx")
    said: list[str] = []
    for name in ("a.onnx", "b.onnx"):  # the content counts
        inverse(tmp_path / name, ("n", 4, 4))
    with pytest.raises(UsageError, match="dynamic and has no shapes") as caught:
        trtsmith.load(tmp_path / "a.onnx", cache=tmp_path / "cache")
    advised = eval(f"dict({caught.value.problems[0].fix})")["options"]
    for name, options in (("a.onnx", OPTIONS | advised), ("b.onnx", OPTIONS)):
        trtsmith.load(
            tmp_path / name,
            flavour="tensorrt_rtx",
            options=options,
            cache=tmp_path / "cache",
            cuda_graph=True,
            progress=said.append,
        )
    (first, how), (second, _) = loaded
    assert first == second and first
    assert how == {"runtime_cache": None, "cuda_graph": True, "device": 0}
    assert "(cache)" not in said[0] and "cache" in said[-1], said


@pytest.mark.parametrize(
    ("device", "number"),
    [
        (1, 1),
        (np.int64(1), 1),
        ("cuda", 0),
        ("cuda:1", 1),
        (torch.device("cuda"), 0),
        (torch.device("cuda:1"), 1),
    ],
)
def test_a_gpu_may_be_named_as_pytorch_does(
    device: object, number: int, loaded: list[tuple[bytes, dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "libtrtsmith_plugins.so").touch()
    (tmp_path / "e.plan").touch()
    trtsmith.load(tmp_path / "e.plan", device=device)
    assert loaded[0][1]["device"] == number


def test_what_keeps_a_model_from_an_engine_is_told(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    inverse(model, ("n", 4, 4))
    with pytest.raises(UsageError, match="is not a shape"):
        trtsmith.load(model, options={"shapes": "x=1x"}, cache=tmp_path / "cache")
    with pytest.raises(UsageError, match="cannot be written to a zoo"):
        trtsmith.load(model, options={"inputs": {"x": object()}}, cache=tmp_path / "cache")
    with pytest.raises(UsageError, match="the model file does not exist"):
        trtsmith.load(tmp_path / "none.onnx")
    text = '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) { y = own.Strange (x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    with pytest.raises(ConversionError, match="Strange"):
        trtsmith.load(model, cache=tmp_path / "cache")


def test_an_engine_is_loaded_as_it_is(loaded: list[tuple[bytes, dict[str, Any]]], tmp_path: Path) -> None:
    (tmp_path / "libtrtsmith_plugins.so").write_bytes(b"")
    (tmp_path / "m.plan").write_bytes(b"engine")
    trtsmith.load(tmp_path / "m.plan", plugins=["own.so"])
    ((data, how),) = loaded
    assert data == b"engine" and (how["plugins"], how["flavour"]) == (["own.so"], "auto")


@pytest.mark.parametrize(
    ("options", "what", "where", "fix"),
    [
        ({"shape": {"x": (1, 4, 4)}}, "unknown option 'shape'", "options", "did you mean 'shapes'?"),
        ({"output": "a.plan"}, "unknown option 'output'", "options", "correct it, or remove it"),
        ({"rtol": {"z": 1e-3}}, "the model has no output 'z'", 'options["rtol"], ', "correct the name"),
        ({"keep_fp32": "Add"}, "keep_fp32 has no effect without precision", "", 'add precision="fp16", or'),
        ({"inputs": "none.npz"}, "inputs names no file", 'options["inputs"]', "correct the path"),
    ],
)
def test_options_are_named_as_python_gives_them(
    tmp_path: Path, options: dict[str, Any], what: str, where: str, fix: str
) -> None:
    inverse(tmp_path / "m.onnx", (1, 4, 4))
    with pytest.raises(UsageError) as caught:
        trtsmith.load(tmp_path / "m.onnx", options=options, cache=tmp_path / "cache")
    (problem,) = caught.value.problems
    assert problem.what.startswith(what) and problem.where.startswith(where) and problem.fix.startswith(fix)
    assert not re.search(r"toml|--|\.scratch", str(problem))


def test_files_among_options_are_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inverse(tmp_path / "m.onnx", ("n", 4, 4))
    np.savez(tmp_path / "x.npz", y=np.ones(1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no array for input 'x'"):
        trtsmith.load("m.onnx", options={"inputs": "x.npz", "shapes": {"x": (1, 4, 4)}})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("shapes", 'options={"shapes": ...}'),
        ("fp16", 'options={"precision": "fp16"}'),
        ("cuda_graphs", "cuda_graph"),
    ],
)
def test_an_option_of_convert_among_the_arguments(given: str, meant: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"no argument {given!r}; did you mean {meant}?")):
        trtsmith.load("m.onnx", **{given: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "fix"),
    [(b"engine", "give the whole result"), (onnx.ModelProto(), "trtsmith.load(trtsmith.convert(model")],
)
def test_what_is_no_engine_is_refused_with_what_to_give(given: Any, fix: str) -> None:
    with pytest.raises(UsageError, match=re.escape(fix)):
        trtsmith.load(given)
