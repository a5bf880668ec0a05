"""Defines the errors that end a command, each with its four-part problems and its exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import overload

from trtsmith.importers.problem import Problem

EXIT_OK = 0
EXIT_FAILED = 1  # not convertible, or the build failed
EXIT_USAGE = 2  # wrong usage, something is missing in the environment, or the model is not sound
EXIT_DISAGREE = 3  # built, but the outputs disagree
EXIT_NOT_COMPARED = 4  # built, but not every output could be compared


class TrtsmithError(Exception):
    """Base of all errors that a user sees without a traceback. Arguments: its problems, or the four parts of the
    only one.
    """

    exit_code = EXIT_FAILED

    @overload
    def __init__(self, problems: Problem | Sequence[Problem], /) -> None: ...

    @overload
    def __init__(self, what: str, where: str, expected: str, fix: str, /) -> None: ...

    def __init__(self, first: Problem | Sequence[Problem] | str, *parts: str) -> None:
        problems = Problem(first, *parts) if isinstance(first, str) else first
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ConversionError(TrtsmithError):
    """The model cannot be converted as it is."""

    exit_code = EXIT_FAILED


class BuildRefused(ConversionError):  # noqa: N818  TensorRT's answer, as much as an error
    """TensorRT refused the model, ended its process, or did not finish: the cause may be in the graph."""


class InvalidModelError(ConversionError):
    """The file is not a valid ONNX model: no engine could come of it, whatever trtsmith supported."""

    exit_code = EXIT_USAGE


class UsageError(TrtsmithError):
    """An option, a path or the environment is wrong."""

    exit_code = EXIT_USAGE


@contextmanager
def problems_named(file: Path, users: object) -> Iterator[None]:
    """Renames problems with a generated file to problems with the user's own, from which it was made."""
    try:
        yield
    except TrtsmithError as error:
        problems = [p.reworded(lambda text: text.replace(str(file), str(users))) for p in error.problems]
        raise type(error)(problems) from error


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and what it came of, each once: contexts may lead back to where they began."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        yield one
        seen.append(one)
        one = one.__cause__ or one.__context__
