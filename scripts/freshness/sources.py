"""Hashes the code on which figures depend, in the working tree or at a commit. The working tree needs no git."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("converter", "importers", "models", "plugins_cpp", "scripts", "tests/rule_examples")
SUFFIXES = frozenset({".py", ".json", ".cu", ".cuh", ".cpp", ".hpp", ".h", ".cmake", ".txt"})

_CPP_SUFFIXES = frozenset({".cu", ".cuh", ".cpp", ".hpp", ".h"})
_CPP_COMMENT = re.compile(rb"^[ \t]*//.*$", re.MULTILINE)
_MESSAGE = re.compile(r"\b[a-z]+ [a-z]")
"""In a text of a program for people: two words, where lists of operators and types have capitals, digits and commas."""

_SET = re.compile(r"^set\((\w+)\s+([^)]*)\)", re.MULTILINE)
_OPERATOR = re.compile(r"^trtsmith_operator\((\w+)\s+([^)]*)\)", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The text of a source."""

    suffix: str
    data: bytes

    @property
    def code(self) -> str:
        return code_hash(self.suffix, self.data)

    def same_code(self, other: Source | None) -> bool:
        """Parses the two only where their texts differ."""
        return other is not None and (self == other or self.code == other.code)


Tree = Mapping[str, Source]
"""By their paths in the checkout."""


@dataclass(frozen=True)
class Part:
    """A part of the sources. name: in sentences, a plural noun. patterns: of paths, in which * stands for slashes, too.

    operators: those whose kernels belong to the part, with all that their sources include; () for every operator, None for
    none.
    """

    name: str
    patterns: tuple[str, ...] = ()
    operators: tuple[str, ...] | None = None

    def files(self, tree: Tree, root: Path = ROOT) -> Tree:
        """The part's files in the tree. Kernels are those that the working tree in `root` lists and includes."""
        wanted = re.compile("|".join(map(translate, self.patterns)) or r"\Z.")
        found = {path for path in tree if wanted.match(path)}
        if self.operators is not None:
            found |= kernel_files(self.operators, root)
        return {path: tree[path] for path in sorted(found) if path in tree}

    def differences(self, before: Tree, after: Tree, root: Path = ROOT) -> list[str]:
        """The part's files that are not the same in two trees."""
        then, now = self.files(before, root), self.files(after, root)
        gone = then.keys() - now.keys()
        return sorted(gone | {path for path, source in now.items() if not source.same_code(then.get(path))})


@cache
def tree_here(root: Path = ROOT) -> Tree:
    """The sources of the working tree, as they are now."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    return {
        path.relative_to(root).as_posix(): Source(path.suffix, path.read_bytes())
        for path in paths
        if path.suffix in SUFFIXES and path.is_file()
    }


@cache
def tree_at(commit: str, root: Path = ROOT) -> Tree | None:
    """The sources of a commit; None where there is no git, or no such commit."""
    lines = git(root, "ls-tree", "-r", commit, "--", *FOLDERS).decode().splitlines()
    blobs = {path: head.split()[2] for head, _, path in (line.partition("\t") for line in lines)}
    wanted = {
        path: (Path(path).suffix, blob) for path, blob in blobs.items() if Path(path).suffix in SUFFIXES
    }
    new = [key for key in dict.fromkeys(wanted.values()) if key not in _KNOWN]
    said = BytesIO(git(root, "cat-file", "--batch", given="".join(f"{blob}\n" for _, blob in new).encode()))
    for suffix, blob in new:
        size = int(said.readline().split()[2])
        _KNOWN[suffix, blob] = Source(suffix, said.read(size + 1)[:-1])
    return {path: _KNOWN[key] for path, key in wanted.items()} or None


_KNOWN: dict[tuple[str, str], Source] = {}
"""By suffix and git's blob: commits share most of them."""


def git(root: Path, *words: str, given: bytes = b"") -> bytes:
    """What git says; b"" where it fails or is missing."""
    try:
        return subprocess.run(["git", "-C", str(root), *words], input=given, capture_output=True).stdout
    except OSError:
        return b""


@cache
def code_hash(suffix: str, data: bytes) -> str:
    """A hash of a file's program: without layout, comments, docstrings and messages, none of which move a figure.

    A Python file has the same hash in every release of Python that parses it.
    """
    if suffix == ".py":
        words: list[str] = []
        _add_words(ast.parse(data), words)
        data = "\n".join(words).encode()
    elif suffix in _CPP_SUFFIXES:
        data = _CPP_COMMENT.sub(b"", data)
    lines = [line for line in data.split(b"\n") if line.strip()]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()[:16]


def _add_words(item: object, words: list[str]) -> None:
    """Adds the types and values below a node of a syntax tree. Fields that are empty vary with the release of Python."""
    if isinstance(item, ast.JoinedStr):
        text = "".join(str(one.value) if isinstance(one, ast.Constant) else "x" for one in item.values)
        item = [one for one in item.values if not (isinstance(one, ast.Constant) and _MESSAGE.search(text))]
    if isinstance(item, list):
        for one in item:
            _add_words(one, words)
    elif not isinstance(item, ast.AST):
        words.append("a message" if isinstance(item, str) and _MESSAGE.search(item) else repr(item))
    elif not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):
        words.append(f"({type(item).__name__}")
        for name, value in ast.iter_fields(item):
            if name not in ("ctx", "kind") and value not in (None, []):
                words.append(name)
                _add_words(value, words)
        words.append(")")


def hashes(parts: Sequence[Part], tree: Tree, root: Path = ROOT) -> dict[str, str]:
    """A hash of each part's paths and contents, by the part's name."""
    found = {}
    for part in parts:
        lines = "".join(f"{path} {source.code}\n" for path, source in part.files(tree, root).items())
        found[part.name] = hashlib.sha256(lines.encode()).hexdigest()[:16]
    return found


@cache
def kernel_files(operators: tuple[str, ...], root: Path = ROOT) -> frozenset[str]:
    """Bindings and CUDA sources of operators (all: ()), with what they include of ops/ and kernels/, by the list of both.

    Raises KeyError for an operator that is not in the list.
    """
    native = root / "plugins_cpp"
    listed = (native / "ops" / "list.cmake").read_text(encoding="utf-8")
    groups = dict(_SET.findall(listed))
    entries = {
        name: re.sub(r"\$\{(\w+)\}", lambda m: groups[m[1]], rest) for name, rest in _OPERATOR.findall(listed)
    }
    pending = [
        native / ("ops" if word.endswith(".cpp") else "kernels") / word
        for operator in operators or entries
        for word in entries[operator].split()
        if word.endswith((".cpp", ".cu"))
    ]
    found: set[Path] = set()
    while pending:
        path = pending.pop()
        if path not in found:
            found.add(path)
            for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
                beside, below = path.parent / name, native / name
                if beside.is_file():
                    pending.append(beside)
                elif name.startswith(("kernels/", "ops/")) and below.is_file():
                    pending.append(below)
    return frozenset(path.relative_to(root).as_posix() for path in found)
