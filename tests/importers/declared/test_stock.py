"""The table of TensorRT's own plugins."""

from __future__ import annotations

from trtsmith.importers.declared.declared_creators import DeclaredField
from trtsmith.importers.declared.stock import stock_names, stock_plugins, stock_table


def held(*release: int) -> dict[tuple[str, str], str]:
    return {(p.creator.name, p.creator.version): p.creator.interface for p in stock_plugins(release)}


def test_what_each_release_has() -> None:
    names = stock_names()
    assert {
        "EfficientNMS_TRT", "BatchedNMSDynamic_TRT", "ROIAlign_TRT", "PillarScatterPlugin", "GroupNormalizationPlugin",
    } <= names  # fmt: skip
    assert held(8, 6)[("ROIAlign_TRT", "1")] == "IPluginV2DynamicExt" and ("ROIAlign_TRT", "2") not in held(
        8, 6
    )
    assert held(10, 16)[("ROIAlign_TRT", "2")] == "IPluginV3"
    assert ("EfficientNMS_ONNX_TRT", "1") in held(10, 16) and ("EfficientNMS_ONNX_TRT", "1") not in held(
        11, 0
    )
    assert held(11, 4) == held(11, 1)  # later than the table knows
    assert {name for name, _ in held()} == names


def test_declared_fields() -> None:
    (efficient,) = (p.creator for p in stock_plugins((10, 16)) if p.creator.name == "EfficientNMS_TRT")
    assert efficient.fields[0] == DeclaredField("score_threshold", "float32", 1)
    assert "score_threshold" in efficient.required and "class_agnostic" not in efficient.required
    assert efficient.family == 2 and efficient.namespace == ""


def test_declarations_of_one_plugin_do_not_overlap() -> None:
    for plugin in stock_table():
        assert plugin.first <= plugin.last and plugin.creator.fields == tuple(
            dict.fromkeys(plugin.creator.fields)
        )
        assert plugin.releases.startswith("TensorRT ")
        same = [
            p for p in stock_table()
            if (p.creator.name, p.creator.version) == (plugin.creator.name, plugin.creator.version)
        ]  # fmt: skip
        assert sum(p.is_in(plugin.first) for p in same) == 1
