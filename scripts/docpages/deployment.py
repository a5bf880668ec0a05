"""Writes the table of the builder's deployment options, from the list that conversions read."""

from __future__ import annotations

from docpages.marks import code, markdown_table
from trtsmith.converter.engine.builder.deployment import DEPLOYMENT, DeploymentOption


def options() -> str:
    """Each option's flags, and which TensorRTs take it."""
    header = ("flag", "trtexec", "Polygraphy", "TensorRT", "TensorRT-RTX", "note")
    return markdown_table(header, [_row(option) for option in DEPLOYMENT])


def _row(option: DeploymentOption) -> tuple[str, ...]:
    refused = f"refused{' without a GPU' if option.gpu else ''}: {option.rtx}" if option.rtx else "takes it"
    theirs = (", ".join(map(code, flags.split())) for flags in (option.trtexec, option.polygraphy))
    if "workspace" in option.name:
        theirs = (code(flags) for flags in (option.trtexec, option.polygraphy))
    return code(option.flags[0]), *theirs, "takes it", refused, option.note
