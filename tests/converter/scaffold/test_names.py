"""Names reserved by a language, by ONNX or by an existing file are refused."""

from __future__ import annotations

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.names import Names, check_names
from trtsmith.importers.registry import OPS


def test_a_name_in_its_forms() -> None:
    names = check_names("VoxelMaxPool", "com.mycompany")
    assert (names.snake, names.camel, names.constant) == ("voxel_max_pool", "voxelMaxPool", "VOXEL_MAX_POOL")
    assert names.placeholders()["dashed"] == "voxel-max-pool"


@pytest.mark.parametrize("op", OPS[:3], ids=lambda op: op.name)
def test_the_forms_are_those_of_a_definition(op: object) -> None:
    assert Names(op.name, "x").snake == op.snake_name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("voxel", "is not a name for an operator"),
        ("V", "is not a name for an operator"),
        ("Voxel_Pool", "is not a name for an operator"),
        ("Vöxel", "is not a name for an operator"),
        ("../Voxel", "is not a name for an operator"),
        ("V" * 70, "is not a name for an operator"),
        ("Relu", "an operator of ONNX"),
        ("ScaledTanh", "of TensorRT's parser"),
        (OPS[0].name, "is an operator that trtsmith has"),
        ("Class", "Python has taken"),
        ("List", "Python has taken"),
        ("Json", "Python has taken"),
        ("Operator", "Python has taken"),
        ("Double", "C++ has taken"),
        ("Dispatch", "headers of trtsmith"),
        ("Tests", "headers of trtsmith"),
        ("Trtsmith", "headers of trtsmith"),
    ],
)
def test_names_that_are_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_names(name, "mycompany")
    (problem,) = caught.value.problems
    assert words in problem.what and all(problem.to_json().values())


@pytest.mark.parametrize(
    "domain", ["", "a b", "a/b", "9a", ".a", "a.", "ai.onnx", "trtsmith", "com.microsoft"]
)
def test_domains_that_are_refused(domain: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_names("VoxelMaxPool", domain)
    assert "--domain" in caught.value.problems[0].where


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        check_names("relu", "ai.onnx")
    assert len(caught.value.problems) == 2
