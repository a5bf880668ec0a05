"""Runs one model through the commands, and reports results that no model may cause."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuzzing.fuzz_process import FuzzProcess
from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_NOT_COMPARED, EXIT_OK
from trtsmith.converter.convert.workarounds.refusals import SUFFIX
from trtsmith.converter.engine.libraries import FOLDER
from trtsmith.converter.rewrite.engine.rule_engine import UNREADABLE

MODEL, OUTPUT = "model.onnx", "out.onnx"
CODES = (0, 1, 2, 3, 4)
BUILT = (EXIT_OK, EXIT_DISAGREE, EXIT_NOT_COMPARED)

OF_OTHERS = frozenset({".ses"})
"""What onnxruntime writes into the temporary folder, once in each process."""

LIBRARIES = frozenset(path.name for path in FOLDER.glob("*.so"))
"""What convert puts beside an engine with plugins."""

_FRAME = re.compile(r'File "[^"\n]*?/((?:converter|importers)/[\w/]+\.py)", line (\d+), in (\w+)')
_FAILED = re.compile(r"internal error: (\w+)")
_RAISED = re.compile(r"^ *([A-Za-z_.]+(?:Error|Exception|Interrupt|Iteration|Exit))\b", re.MULTILINE)
_BROKEN = re.compile(r"error: (.*?)\n.*?this is a bug in trtsmith", re.DOTALL)
_UNREAD = re.compile(rf"the rule '[^']*' {UNREADABLE} \(\w+")
_FATAL = re.compile(r"(?:Fatal Python error: .*|terminate called.*|what\(\):.*)")


@dataclass(frozen=True)
class FuzzFinding:
    """A forbidden result. kind: its type; place: where it occurs, which tells findings apart; words: the command."""

    kind: str
    place: str
    words: tuple[str, ...]
    said: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.place


@dataclass(frozen=True)
class FuzzTrial:
    """The result of one model. codes: exit codes, by command; calls: pairs of places new with this model.

    cpu_s, mib: the longest and the largest of the commands that ended.
    """

    findings: tuple[FuzzFinding, ...]
    codes: tuple[int | None, ...]
    calls: tuple[int, ...] = ()
    cpu_s: float = 0.0
    mib: int = 0


def commands_for(draw: random.Random, convert: bool) -> list[list[str]]:
    """check, rewrite and rewrite --expand, for a random target and precision; convert on request."""
    flavour = draw.choice(("tensorrt", "tensorrt_rtx"))
    common = [MODEL, "-v", "--flavour", flavour]
    precision = draw.choice((None, None, None, "fp32", "fp16", "bf16"))
    common += ["--precision", precision] if precision else []
    commands = [
        ["check", *common],
        ["rewrite", *common, "-o", OUTPUT],
        ["rewrite", *common, "-o", OUTPUT, "--expand"],
    ]
    if convert:
        target = "--flavour tensorrt_rtx --target sm86 --timeout 100"
        commands.append(["convert", MODEL, "-v", *target.split(), "-o", "out.plan"])
    return commands


def run_trial(process: FuzzProcess, data: bytes, commands: Sequence[list[str]]) -> FuzzTrial:
    """Runs the commands in turn, each in a folder that holds only the model."""
    findings: list[FuzzFinding] = []
    codes: list[int | None] = []
    calls: list[int] = []
    cpu_s, mib = 0.0, 0
    for words in commands:
        process.clean()
        (process.work / MODEL).write_bytes(data)
        answer = process.ask([_in_folder(word, process) for word in words])
        named = tuple(words)
        if "died" in answer:
            findings.append(FuzzFinding(_died(answer["died"]), _place(answer), named, answer["said"]))
            codes.append(None)
            process.clean()
            continue
        codes.append(answer["code"])
        calls += answer["calls"]
        cpu_s, mib = max(cpu_s, answer["cpu_s"]), max(mib, answer["mib"])
        findings += _judged(answer, process.left(), named, process.limits.resident_mib)
        unread = _UNREAD.search(answer["said"])
        if unread and runs_in_onnxruntime(data):
            findings.append(FuzzFinding("unread", unread[0][:160], named, answer["said"]))
    return FuzzTrial(tuple(findings), tuple(codes), tuple(calls), cpu_s, mib)


def runs_in_onnxruntime(data: bytes) -> bool:
    """Whether onnxruntime accepts the model as far as possible without inputs; in a child process, which may die."""
    code = "import sys, onnxruntime as o; o.set_default_logger_severity(4); o.InferenceSession(sys.stdin.buffer.read())"
    try:
        ended = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def _in_folder(word: str, process: FuzzProcess) -> str:
    return str(process.work / word) if word == MODEL or word.startswith("out.") else word


def _died(how: str) -> str:
    """The kind of finding. The last words of a process that exits by itself do not tell findings apart."""
    return {"hangs": "hang"}.get(how, f"process {how}" if how.startswith("crashes") else "process ends")


def _place(answer: dict[str, Any]) -> str:
    """Where a process died: its own message, and the toolkit's innermost function."""
    said = answer["said"]
    frames = re.findall(r'File "[^"\n]*?/((?:converter|importers)/[\w/]+\.py)", line \d+ in (\w+)', said)
    fatal = _FATAL.search(said)
    inner = "{}, {}".format(*frames[0]) if frames else ""
    return "; ".join(filter(None, (fatal[0][:120] if fatal else "", inner)))


def _judged(
    outcome: dict[str, Any], left: dict[str, list[str]], words: tuple[str, ...], most_mib: int
) -> list[FuzzFinding]:
    code, said = outcome["code"], outcome["said"]
    found: list[tuple[str, str]] = []
    failed = _FAILED.search(said)
    if failed or "Traceback (most recent call last)" in said:
        frames = _FRAME.findall(said)
        raised = failed[1] if failed else (_RAISED.findall(said) or ["?"])[-1]
        inner = "{}, line {}, {}".format(*frames[-1]) if frames else "?"
        found.append(("internal error", f"{raised} in {inner}"))
    elif code not in CODES:
        found.append(("exit code", str(code)))
    elif code in (1, 2) and "error: " not in said and words[0] != "check":
        found.append(("no message", f"{words[0]} ends with {code}"))
    broken = _BROKEN.search(said)
    if broken:
        found.append(("broken rule", re.sub(r"'[^']*'", "'...'", broken[1])[:160]))
    if outcome["mib"] > most_mib:
        found.append(("memory", f"{words[0]} uses {outcome['mib'] >> 8 << 8} MiB"))
    made = {name for name in left["work"] if name.startswith("out.") or name in LIBRARIES}
    expected = {MODEL} | {name for name in made if code in BUILT or _is_told(name, code, said)}
    more = [name for name in left["work"] if name not in expected]
    more += [name for name in left["temporary"] if name not in OF_OTHERS]
    if more:
        found.append(("left over", ", ".join(more)[:80]))
    if code == 0 and words[0] == "rewrite" and OUTPUT not in left["work"]:
        found.append(("no output", " ".join(words)))
    return [FuzzFinding(kind, place, words, said) for kind, place in found]


def _is_told(name: str, code: int, said: str) -> bool:
    """Whether the file holds the nodes that TensorRT refused, as the message says."""
    return code == 1 and name.endswith(SUFFIX) and f"/{name}" in said
