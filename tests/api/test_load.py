"""`trtsmith.load` builds a model's engine once, and takes it from the cache afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import trtsmith
from tests.converter.models import inverse
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.runtime import engine_module

OPTIONS = {
    "shapes": {"x": [(1, 4, 4), (2, 4, 4), (4, 4, 4)]},
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
        model = tmp_path / name
        inverse(model, ("n", 4, 4))
        trtsmith.load(
            model,
            flavour="tensorrt_rtx",
            options=OPTIONS,
            cache=tmp_path / "cache",
            cuda_graph=True,
            progress=said.append,
        )
    (first, how), (second, _) = loaded
    assert first == second and first
    assert how == {"runtime_cache": None, "cuda_graph": True, "device": 0}
    assert "(cache)" not in said[0] and "cache" in said[-1], said


def test_what_keeps_a_model_from_an_engine_is_told(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    inverse(model, ("n", 4, 4))
    with pytest.raises(UsageError, match="is not a shape"):
        trtsmith.load(model, options={"shapes": "x=1x"}, cache=tmp_path / "cache")
    with pytest.raises(UsageError, match="cannot be written to a zoo"):
        trtsmith.load(model, options={"inputs": {"x": object()}}, cache=tmp_path / "cache")
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


def test_bytes_of_an_engine_are_refused_with_what_to_give() -> None:
    with pytest.raises(UsageError, match="give the whole result"):
        trtsmith.load(b"engine")  # type: ignore[arg-type]
