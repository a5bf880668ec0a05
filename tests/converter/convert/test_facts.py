"""The facts of a built engine, and the warnings that follow from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.convert.facts import coverage, engine_facts, pinned_values
from trtsmith.converter.convert.plan import Plan, PlannedNode, Route
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.build_request import BuildResult, EngineTensor, PluginUse

PLUGINS = tuple(PluginUse(node, "MatrixInverse", "1", "trtsmith", ()) for node in ("first", "second"))
NODES = tuple(PlannedNode(use.node, "Inverse", Route.PLUGIN, "") for use in PLUGINS)
PLAN = Plan((*NODES, PlannedNode("r", "Relu", Route.NATIVE, "")), PLUGINS, ())
BUILT = BuildResult(
    engine_path=Path("m.plan"),
    size=7,
    seconds=1.5,
    flavour="tensorrt_rtx",
    version="1.7.1.116",
    targets=("sm86", "sm89"),
    inputs=(EngineTensor("x", "float32", (-1, 3), "input", False),),
    outputs=(EngineTensor("y", "int64", (2,), "output", False),),
    layers=3,
    plugin_layers=(),
)


def test_the_facts_name_each_plugin_once_and_count_nodes_by_route() -> None:
    facts = engine_facts(PLAN, BUILT, None)
    assert facts["plugins"] == ["trtsmith::MatrixInverse version 1"]
    assert facts["nodes"] == {"native": 1, "plugin": 2} and facts["verdict"] is None
    assert facts["tensorrt"] == {"flavour": "tensorrt_rtx", "version": "1.7.1.116"}
    assert facts["targets"] == ("sm86", "sm89")
    assert [(t["name"], t["shape"]) for t in (*facts["inputs"], *facts["outputs"])] == [
        ("x", (-1, 3)),
        ("y", (2,)),
    ]


def test_values_that_an_example_gave_are_warned_of_and_those_of_the_flag_are_not() -> None:
    values = {name: ShapeRange((1,), (4,), (9,)) for name in ("size", "k")}
    (warning,) = pinned_values(values, {"k": values["k"]})
    assert "'size' has the values [4] of --inputs" in warning and "--values size=MIN:OPT:MAX" in warning


def test_gpus_without_kernels_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "manifest", lambda path: {"cuda_architectures": "86-real 90-real"})
    built = replace(BUILT, targets=("sm86", "sm89", "sm100", "sm75"))
    (warning,) = coverage(PLAN, built)
    assert "no kernels for sm100, sm75 (it was built for 86-real 90-real)" in warning
    library = str(libraries.plugin_library())
    assert library in warning and "TRTSMITH_CUDA_ARCHITECTURES=release make -C " in warning
    monkeypatch.setattr(
        "trtsmith.converter.convert.facts.SOURCES", tmp_path
    )  # an installation has no Makefile
    (warning,) = coverage(PLAN, built)
    assert "TRTSMITH_CUDA_ARCHITECTURES=release pip install --force-reinstall --no-deps ." in warning
    assert coverage(PLAN, BUILT) == ()
    assert coverage(Plan((), (), ()), built) == ()  # no plugin is needed
