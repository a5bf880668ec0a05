"""--rtol and --atol, for all outputs and for one."""

from __future__ import annotations

import pytest

from tests.converter.verify.test_compare import A, one
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.verify.tolerances import parse_tolerances


def test_tolerances_by_element_and_by_output() -> None:
    limits = parse_tolerances(["0.1", "z:0"], ["a:b:0.5"])
    assert (limits.of("y"), limits.of("z"), limits.of("a:b")) == ((0.1, 0.0), (0.0, 0.0), (0.1, 0.5))
    assert parse_tolerances([], ["z:1"]).of("y") is None
    assert one(A, A * 1.05, rtol=["0.1"])[0] is True
    assert one(A, A * 1.2, rtol=["0.1"]) == (False, "12 elements beyond rtol 0.1, atol 0")
    assert one(A, A + 0.2, atol=["0.1"])[0] is False
    assert one(A, A + 0.2, atol=["y:0.3"])[0] is True


@pytest.mark.parametrize("text", ["", ":", "y:", "abc", "nan", "inf", "-1", "y:-1", "y:nan", "1e-3:y"])
def test_nonsense_tolerances(text: str) -> None:
    with pytest.raises(UsageError, match="is not a tolerance"):
        parse_tolerances([text])


def test_tolerances_of_outputs_that_are_not_there() -> None:
    with pytest.raises(UsageError) as error:
        parse_tolerances(["q:1", "1"], ["r:1", "y:1"]).check_outputs(["y"])
    assert [p.where for p in error.value.problems] == ["--rtol q:1", "--atol r:1"]
