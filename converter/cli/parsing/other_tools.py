"""Suggests trtsmith's flag for a flag of trtexec, Polygraphy or an exporter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trtsmith.converter.cli.parsing.other_flags import FLAGS, Other, OurWay


@dataclass(frozen=True)
class ForeignFlag:
    """A flag of another tool. tool: its name. here: our equivalent. fix: the correction."""

    tool: str
    here: str
    fix: str


def foreign_flag(prog: str, name: str, value: str, sign: str, flags: Sequence[str]) -> ForeignFlag | None:
    """Finds the equivalent of an unknown flag `name` of `prog` ("trtsmith convert"); None if no tool has it.

    value, sign: what stands behind it, if anything does, after "=" or a blank. flags: those of `prog`.
    """
    other = FLAGS.get(name)
    if other is None:
        return None
    if not other.ways:
        return ForeignFlag(other.tool, other.note, f"leave {name} out")
    command = prog.partition(" ")[2]
    way = next((way for way in other.ways if command in way.commands and _has(way, flags)), other.ways[0])
    words = _with_value(way.words, other, value)
    behind = f"{sign}{value}" if value and (sign == "=" or "VALUE" in way.words) else ""
    here = command in way.commands and _has(way, flags)
    form = words if here else f"trtsmith {way.commands[0]} ... {words}"
    note = f"; {other.note}" if other.note else ""
    return ForeignFlag(other.tool, f"{form}{note}", f"write {form} in place of {name}{behind}")


def mixed_precision(words: Sequence[str]) -> str:
    """What trtexec's and Polygraphy's --int8 and --fp16 together are here; "" unless there is one of each kind.

    words: those that were typed, in which a value of --precision counts as one of the flags.
    """
    flags = {word.partition("=")[0] for word in words}
    flags |= {f"--{one}" for one in re.findall(r"--precision[ =](\w+)", " ".join(words))}
    low, rest = (
        next((name for name in names if f"--{name}" in flags), "")
        for names in (("int8", "fp8"), ("fp16", "bf16"))
    )
    return f"--precision {low}+{rest}" if low and rest else ""


def image_shape(words: Sequence[str]) -> str:
    """What a batch and an image size of an exporter together are here; "" unless both are given as numbers."""
    batch, size = (
        re.search(rf"(?<!\S)(?:--)?(?:{names})[ =](\d+)(?!\S)", " ".join(words))
        for names in ("batch|batch[-_]size", "imgsz|img-size")
    )
    return f"--shapes NAME={batch[1]}x3x{size[1]}x{size[1]}" if batch and size else ""


def _has(way: OurWay, flags: Sequence[str]) -> bool:
    """Whether the command has the flag; positional arguments always exist."""
    return not way.words.startswith("--") or way.words.split()[0] in flags


def _with_value(words: str, other: Other, value: str) -> str:
    """Replaces VALUE by the given value, or by its kind, other.value, without one."""
    found = re.match(other.take, value) if value and other.take else None
    given = value if not other.take else found[1] if found else ""
    return words.replace("VALUE", given or other.value)
