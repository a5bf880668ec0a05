"""Reports problems through Polygraphy's logger and exception."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from polygraphy.logger import G_LOGGER

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.cli.console import printable

_FLAGS = (
    (re.compile(r"--(freeze|flavour|ops|no-plugins-from-packages)\b"), r"--trtsmith-\1"),
    (re.compile(r"--precision (fp16|bf16|int8|fp8)\b"), r"--\1"),
    (
        re.compile(r"--(?:shapes|values) ([^\s=]+)=\[?(\d[\dx,]*)\]?:\[?(\d[\dx,]*)\]?:\[?(\d[\dx,]*)\]?"),
        lambda found: " ".join(
            f"--trt-{end}-shapes {found[1]}:[{part.replace('x', ',')}]"
            for end, part in zip(("min", "opt", "max"), found.groups()[1:], strict=True)
        ),
    ),
)
"""Flags of our commands, and how `polygraphy run` has them."""


@contextmanager
def problems_logged() -> Iterator[None]:
    """Turns a TrtsmithError of the block into a log entry and a PolygraphyException, on which its tools exit with code 1."""
    from trtsmith.argument_words import flags_kept  # which become those of `polygraphy run`

    try:
        with flags_kept():
            yield
    except TrtsmithError as error:
        G_LOGGER.critical(
            "\n".join(printable(with_polygraphys_flags(str(problem))) for problem in error.problems)
        )


@contextmanager
def known(ops: Sequence[str] | None, packages: bool | None) -> Iterator[None]:
    """Activates operators from outside inside the block. Raises TrtsmithError if they are wrong.

    ops: FILE.py, FOLDER or MODULE each. packages: whether those of installed packages count; None: yes.
    """
    from trtsmith.converter.operators.loading import operators_in_force

    with operators_in_force(tuple(ops or ()), installed=packages is not False):
        yield


def with_polygraphys_flags(text: str) -> str:
    """Returns the message with Polygraphy's names of the flags."""
    for flag, there in _FLAGS:
        text = flag.sub(there, text)
    return text


def progress(text: str) -> None:
    """Logs a step; its names come from files."""
    G_LOGGER.info(printable(text))


def warn(text: str) -> None:
    G_LOGGER.warning(printable(text))
