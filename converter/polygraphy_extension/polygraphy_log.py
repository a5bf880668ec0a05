"""Tells Polygraphy's user what is wrong, by Polygraphy's own logger and its own exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polygraphy.logger import G_LOGGER

from trtsmith.converter.cli.console import printable
from trtsmith.converter.model.errors import TrtsmithError


@contextmanager
def problems_logged() -> Iterator[None]:
    """In the block, a TrtsmithError is logged, and becomes the PolygraphyException with which its tools end: exit code 1."""
    try:
        yield
    except TrtsmithError as error:
        G_LOGGER.critical("\n".join(printable(str(problem)) for problem in error.problems))


def progress(text: str) -> None:
    """What is being done; names in it come from files."""
    G_LOGGER.info(printable(text))


def warn(text: str) -> None:
    G_LOGGER.warning(printable(text))
