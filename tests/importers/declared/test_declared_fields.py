"""Attributes of a node against the fields that a foreign creator declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper as oh
from onnx import numpy_helper

from trtsmith.importers.declared.declared_creators import DeclaredCreator, DeclaredField, matching
from trtsmith.importers.declared.declared_fields import attribute_faults, attribute_notes, passed_fields
from trtsmith.importers.fields import FieldValue

POOL = DeclaredCreator(
    "Pool",
    "1",
    "them",
    "libpool.so",
    fields=(
        DeclaredField("kernel", "int32", 2),
        DeclaredField("scale", "float32", 1, (0.5,)),
        DeclaredField("mode", "char", 0),
        DeclaredField("table", "float32", 0),
        DeclaredField("half", "float16", 1),
        DeclaredField("any", "unknown", 0),
    ),
    required=frozenset({"kernel"}),
)


def faults(**attributes: Any) -> list[tuple[str, str]]:
    made = [oh.make_attribute(name, value) for name, value in attributes.items()]
    return [(fault.reason, fault.fix) for fault in attribute_faults(POOL, made)]


@pytest.mark.parametrize(
    "given",
    [
        {"scale": 2.0},
        {
            "mode": "max",
            "table": [1.0, 2.0, 3.0],
            "any": 4,
            "plugin_version": "1",
            "plugin_namespace": "them",
        },
        {"any": [1.0]},
        {"table": numpy_helper.from_array(np.ones(4, np.float32))},
        {"half": numpy_helper.from_array(np.ones(1, np.float16))},
        {"tensorrt_plugin_shape_input_indices": [0]},
    ],
)
def test_what_the_creator_takes(given: dict[str, Any]) -> None:
    assert faults(kernel=[3, 3], **given) == []


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        ({"kernel_size": [3, 3]}, "unknown attribute 'kernel_size'", "did you mean 'kernel'?"),
        ({"kernel": [3, 3], "zzz": 1}, "unknown attribute 'zzz'", "remove"),
        ({"kernel": [3.0, 3.0]}, "attribute 'kernel' = [3.0, 3.0] is FLOATS", "an INT or INTS attribute"),
        ({"kernel": [3, 3], "scale": 2}, "attribute 'scale' = 2 is INT", "a FLOAT or FLOATS attribute"),
        ({"kernel": "3"}, "attribute 'kernel' = '3' is STRING", "an INT or INTS attribute"),
        ({"kernel": [3, 3], "half": 2.0}, "attribute 'half' = 2.0 is FLOAT", "declare the field as float32"),
        ({"kernel": [3, 3, 3]}, "attribute 'kernel' has 3 elements", "correct 'kernel'"),
        ({"kernel": 3}, "attribute 'kernel' has 1 element", "correct 'kernel'"),
        ({"kernel": [3, 2**40]}, "attribute 'kernel' has 1099511627776, which TensorRT's parser would cut", "correct"),
        ({"kernel": [3, 3], "any": numpy_helper.from_array(np.ones(1, np.int64))}, "attribute 'any' is a TENSOR", ""),
        ({}, "the field 'kernel' is missing", "add attribute 'kernel'"),
    ],
)  # fmt: skip
def test_what_it_does_not_take(given: dict[str, Any], what: str, fix: str) -> None:
    (found, *rest) = faults(**given)
    assert found[0].startswith(what) and fix in found[1]
    assert rest == [] or "kernel_size" in given  # which leaves kernel missing, too


def test_an_empty_list_where_one_element_is_declared() -> None:
    empty = oh.make_attribute("scale", [], attr_type=6)
    (fault,) = attribute_faults(POOL, [oh.make_attribute("kernel", [1, 1]), empty])
    assert fault.reason == "attribute 'scale' has 0 elements"


def test_notes_name_what_is_left_to_the_plugin() -> None:
    made = [oh.make_attribute("kernel", [1, 1]), oh.make_attribute("scale", [1.0, 2.0])]
    left, length = attribute_notes(POOL, made)
    assert left.startswith("fields 'mode', 'table', 'half', 'any' of them::Pool version 1 are not given")
    assert "'scale' has 2 elements" in length and "only a hint" in length
    (left,) = attribute_notes(POOL, made[:1])
    assert "'scale' (listed with [0.5])" in left
    old = DeclaredCreator("Old", "1", "", "lib", 2, interface="IPluginV2Ext")
    assert list(attribute_notes(old, ())) == [
        "Old version 1 is an IPluginV2Ext plugin, which takes inputs of fixed shapes only"
    ]


def test_fields_as_the_parser_passes_them() -> None:
    made = [oh.make_attribute("mode", "max"), oh.make_attribute("kernel", 3), oh.make_attribute("lost", 1)]
    assert passed_fields(POOL, made) == (
        FieldValue("kernel", "int32", (3,)),
        FieldValue("mode", "string", "max"),
    )
    tensor = oh.make_attribute("table", numpy_helper.from_array(np.ones(2, np.float32)))
    assert passed_fields(POOL, [tensor]) is None


def test_the_parser_finds_a_creator_by_namespace_then_by_domain() -> None:
    plain, theirs = DeclaredCreator("A", "1", "", "x"), DeclaredCreator("A", "1", "dom", "y")
    assert matching((plain, theirs), "A", "1", "", "dom") is plain
    assert matching((theirs,), "A", "1", "", "dom") is theirs
    assert matching((theirs,), "A", "1", "", "other") is None
    assert matching((plain,), "A", "2", "", "") is None
