"""Lists the allowed values of options, from the command line or from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trtsmith.converter.base.errors import UsageError
from trtsmith.importers.problem import Problem

_END = 2**31  # every interface behind takes what is below


def is_count(value: object) -> bool:
    """Tells whether the value is a whole number of at least 1, as of MiB or samples."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _END


def is_seconds(value: object) -> bool:
    """Tells whether the value is a positive time."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _END


def is_cost(value: object) -> bool:
    """Tells whether the value, by which an output may change, is a number of at least 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _END


def is_target(value: object) -> bool:
    """Tells whether the value has the form sm86. Only TensorRT knows which of them can be built for."""
    return isinstance(value, str) and value[:2] == "sm" and value[2:].isascii() and value[2:].isdigit()


EXPECTED: dict[Callable[[object], bool], str] = {
    is_count: f"a whole number from 1 to {_END - 1}",
    is_cost: "a number >= 0, as 0.05",
    is_seconds: "a positive number of seconds",
    is_target: "GPUs such as sm86,sm89",
}


def check_values(*given: tuple[str, object, Sequence[object] | Callable[[object], bool]]) -> None:
    """Raises UsageError with every option whose value is not allowed; None stands for an option that is not given.

    given: of each option the flag, the value, and its choices or one of EXPECTED.
    """
    problems = []
    for flag, value, allowed in given:
        good = allowed(value) if callable(allowed) else value in allowed
        if value is not None and not good:
            expected = (
                EXPECTED[allowed] if callable(allowed) else ", ".join(str(c) for c in allowed if c != "")
            )
            what = f"{value!r} is not a value of {flag}"
            problems.append(Problem(what, f"{flag} {value}", expected, "give one of these, or leave it out"))
    if problems:
        raise UsageError(problems)
