"""Problems of our own temporary file are reported as problems of the user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.base.errors import ConversionError, UsageError, problems_named
from trtsmith.importers.problem import Problem

OURS, USERS = Path("/tmp/work/model.onnx"), Path("detector.onnx")


@pytest.mark.parametrize("kind", [ConversionError, UsageError])
def test_every_part_of_every_problem_names_the_users_file(kind: type[ConversionError | UsageError]) -> None:
    with pytest.raises(kind) as caught, problems_named(OURS, USERS):
        raise kind(
            [Problem(f"{OURS} is odd", f"{OURS}, node 'a'", "b", f"look into {OURS}"), Problem(*"abcd")]
        )
    assert caught.value.problems == (
        Problem("detector.onnx is odd", "detector.onnx, node 'a'", "b", "look into detector.onnx"),
        Problem(*"abcd"),
    )
