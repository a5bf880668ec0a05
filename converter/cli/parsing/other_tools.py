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


def foreign_flag(
    prog: str, name: str, value: str, sign: str, flags: Sequence[str], typed: Sequence[str]
) -> ForeignFlag | None:
    """Finds the equivalent of an unknown flag `name` of `prog` ("trtsmith convert"); None if no tool has it.

    value, sign: what stands behind it, if anything does, after "=" or a blank. flags: those of `prog`. typed: the
    whole command line, of which two such flags may be one of ours.
    """
    other = FLAGS.get(name)
    if other is None:
        return None
    if not other.ways:
        return ForeignFlag(other.tool, other.note, f"leave {name} out")
    command = prog.partition(" ")[2]
    way = next((way for way in other.ways if command in way.commands and _has(way, flags)), other.ways[0])
    words = _with_value(way.words, other, value)
    elsewhere = "" if command in way.commands and _has(way, flags) else way.commands[0]
    for both in (_mixed_precision(typed), _image_shape(typed)):
        if both and words.startswith(both.partition(" ")[0]):
            return ForeignFlag(other.tool, _form(both, elsewhere), _correction(both, elsewhere, "both"))
    behind = f"{sign}{value}" if value and (sign == "=" or "VALUE" in way.words) else ""
    note = f"; {other.note}" if other.note else ""
    fix = _correction(words, elsewhere, f"{name}{behind}")
    return ForeignFlag(other.tool, f"{_form(words, elsewhere)}{note}", fix)


def _form(words: str, elsewhere: str) -> str:
    """Our flag, with the command that takes it where it is another than the one that was typed."""
    return f"trtsmith {elsewhere} ... {words}" if elsewhere else words


def _correction(words: str, elsewhere: str, given: str) -> str:
    """The fix for `given`, what was typed, of which `words` is our form."""
    if elsewhere:
        return f"leave {given} out, and give {words} to trtsmith {elsewhere}"
    return f"write {words} in place of {given}"


def _mixed_precision(words: Sequence[str]) -> str:
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


def _image_shape(words: Sequence[str]) -> str:
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
