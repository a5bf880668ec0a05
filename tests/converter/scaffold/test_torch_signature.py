"""Function parameters become ports and fields, or a message says what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import pytest
import torch

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.torch_signature import Scalar, Signature, Tensor, signature_of
from trtsmith.importers.opdef import Kind


def whole(
    x: torch.Tensor,
    ids: torch.Tensor,
    mask: Optional[torch.Tensor] = None,  # noqa: UP045  as others write it
    *,
    size: int,
    scale: float = 0.5,
    mean: bool = True,
    mode: str = "sum",
    pads: Sequence[int] = (1, 2),
    weights: list[float] | None = None,
) -> torch.Tensor:
    raise NotImplementedError


def several(
    xs: list[torch.Tensor], bias: torch.Tensor | None, y: torch.Tensor, rest: tuple[torch.Tensor | None, ...] = ()
) -> torch.Tensor:  # fmt: skip
    raise NotImplementedError


def between(x: torch.Tensor, bias: torch.Tensor | None, y: torch.Tensor, last: torch.Tensor | None) -> None:
    raise NotImplementedError


def bare(x, k, r=2.0, *sizes):  # type: ignore[no-untyped-def]
    raise NotImplementedError


def as_text(x: torch.Tensor, n: Gone = 3):  # type: ignore[name-defined,no-untyped-def]  # noqa: F821
    raise NotImplementedError


def read(function: Callable[..., Any], **examples: str) -> Signature:
    return signature_of(function, examples, "a test")


def problems(function: Callable[..., Any], **examples: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        read(function, **examples)
    assert all(all(problem.to_json().values()) for problem in caught.value.problems)
    return [problem.what for problem in caught.value.problems]


def test_annotations_defaults_and_examples() -> None:
    found = read(whole, x="2x3", ids="5:int64", size="7", mean="False", weights="1,2.5")
    assert found.tensors == (Tensor("x", (2, 3), "float32"), Tensor("ids", (5,), "int64"))
    assert found.left_out == ("mask",)
    assert found.scalars == (
        Scalar("size", Kind.INT, 7, None),
        Scalar("scale", Kind.FLOAT, 0.5, 0.5),
        Scalar("mean", Kind.INT, 0, 1, True),
        Scalar("mode", Kind.STRING, "sum", "sum"),
        Scalar("pads", Kind.INTS, (1, 2), (1, 2)),
        Scalar("weights", Kind.FLOATS, (1.0, 2.5), None),
    )


def test_an_optional_tensor_with_an_example_is_a_port() -> None:
    found = read(whole, x="2x3", ids="5:int64", mask="4", size="7", weights="1")
    assert [tensor.name for tensor in found.tensors] == ["x", "ids", "mask"]


def test_an_optional_tensor_without_a_default_needs_no_example() -> None:
    found = read(between, x="2", y="2")
    assert found.left_out == ("bias", "last") and found.order == ("x", "bias", "y")
    assert read(between, x="2", y="2", bias="3").order == ("x", "bias", "y")


def test_lists_of_tensors_are_refused() -> None:
    assert problems(several, xs="2x4,2x4", y="3") == [
        "parameter 'xs' is a list of tensors",
        "parameter 'rest' is a list of tensors",
    ]


def test_without_annotations_examples_and_defaults_say_it() -> None:
    def two(x, k, r=2.0):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    found = read(two, x="2x3", k="4")
    assert [tensor.name for tensor in found.tensors] == ["x"]
    assert [(scalar.name, scalar.kind) for scalar in found.scalars] == [("k", Kind.INT), ("r", Kind.FLOAT)]
    assert found.guessed == ("k",) and read(two, x="2x3", k="4.5").guessed == ()
    assert read(two, x="2x3", k="4:float32").guessed == read(between, x="2", y="2").guessed == ()


def test_annotations_that_python_cannot_resolve() -> None:
    found = read(as_text, x="4")
    assert found.tensors == (Tensor("x", (4,), "float32"),)
    assert found.scalars == (Scalar("n", Kind.INT, 3, 3),)


def test_all_that_is_not_known_is_said_at_once() -> None:
    assert problems(whole) == [
        "parameter 'x' is a tensor without a shape",
        "parameter 'ids' is a tensor without a shape",
        "parameter 'size' has no example value",
        "parameter 'weights' has no example value",
    ]
    assert problems(bare, x="2x3", gone="1") == [
        "the function has no parameter 'gone'",
        "parameter 'sizes' takes any number of arguments",
    ]


def test_an_example_under_another_name_is_told_which_parameter_it_is_of() -> None:
    with pytest.raises(UsageError) as caught:
        read(whole, input="2x3", x="2x3", size="7", weights="1", more="1")
    assert [problem.fix for problem in caught.value.problems] == ["--example ids=2x3", "leave it out"]


@pytest.mark.parametrize("example", ["0x3", "2x3:int8", "three", "2x-1"])
def test_what_is_no_shape(example: str) -> None:
    assert f"{example!r} is not a shape" in problems(whole, x=example, ids="5", size="1", weights="1")


def test_what_is_no_number() -> None:
    assert problems(whole, x="2", ids="5", size="many", weights="1") == ["'many' is no int"]
    assert problems(whole, x="2", ids="5", size="1,2", weights="1") == ["'1,2' is no int"]


def test_a_function_without_tensors_or_without_a_signature() -> None:
    def number(k: int = 1) -> int:
        return k

    assert problems(number) == ["no parameter is a tensor"]
    assert "signature cannot be read" in problems(torch.relu)[0]


def test_a_list_of_tensors_as_result_is_refused_with_the_tuple_to_write() -> None:
    def split(x: torch.Tensor) -> list[torch.Tensor]:
        return [x, x]

    with pytest.raises(UsageError, match="the function returns a list of tensors") as caught:
        signature_of(split, {"x": "2x3"}, "here")
    assert caught.value.problems[0].fix.endswith("-> tuple[torch.Tensor, torch.Tensor]")
