"""Reads the problems of a refused engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trtsmith.converter.base.errors import UsageError


def problem_of(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as error:
        call()
    return "\n---\n".join(map(str, error.value.problems))
