"""Finds the declarations of creators in NVIDIA's plugin sources: name, version, fields, and the plugin's interface.

The sources are read as text, class by class; what does not read as expected raises ValueError, so that no creator is lost in
silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

INTERFACES = ("IPluginV3", "IPluginV2DynamicExt", "IPluginV2IOExt", "IPluginV2Ext", "IPluginV2")
_NAME = r"[A-Za-z_]\w*"
_CLASS = re.compile(
    rf'\b(?:class|struct)\s+(?:[A-Z_]+(?:\s*\(\s*"[^"]*"\s*\))?\s+)?({_NAME})(?:\s+final)?\s*:\s*((?:public|private|protected)[^{{;]*)\{{'
)
_FIELD = re.compile(
    rf'PluginField\s*[({{]\s*(?:"(\w+)"|({_NAME}))\s*(?:,[^,()]*,\s*(?:\w+::)*PluginFieldType::k(\w+)\s*,\s*(\w+))?\s*[)}}]'
)
_TEXT = re.compile(rf'\b({_NAME})\s*(?:\[\s*\w*\s*\])?\s*(?:=\s*)?(\{{[^{{}}]*\}}|"[^"]*")\s*;')
_MEMBER = re.compile(rf"\b({_NAME})(?:<\w+>)?::({_NAME})\s*\(")
_INSTANCE = re.compile(rf"\busing\s+({_NAME})\s*=\s*({_NAME})<({_NAME})>\s*;")
_REQUIRED = r"validateRequiredAttributesExist\s*\(\s*\{([^}]*)\}"
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*")', re.DOTALL)
_WORDS = {"int32": "int32", "float32": "float32", "char": "char", "unknown": "unknown"}


@dataclass(frozen=True)
class StockField:
    """A field as the creator declares it. type "unknown", length 0: only its name is declared."""

    name: str
    type: str
    length: int


@dataclass(frozen=True)
class StockCreator:
    """A creator. interface: of its plugins, one of INTERFACES. required: fields without which it creates nothing."""

    name: str
    version: str
    interface: str
    fields: tuple[StockField, ...]
    required: tuple[str, ...] = ()


class PluginSources:
    """The sources of one release: text by path below the folder `plugin`."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: _COMMENT.sub(lambda m: m[1] or " ", text) for path, text in files.items()}
        self._bases: dict[str, tuple[str, ...]] = {}
        self._members: dict[tuple[str, str], tuple[str, str]] = {}
        self._constants: dict[str, dict[str, list[str]]] = {}
        self._instances: dict[str, tuple[str, str]] = {}
        inline: dict[str, tuple[str, str]] = {}
        for path, text in self._files.items():
            self._constants[path] = {
                found[1]: re.findall(r'"([^"]*)"', found[2]) for found in _TEXT.finditer(text)
            }
            self._instances |= {found[1]: (found[2], found[3]) for found in _INSTANCE.finditer(text)}
            for found in _CLASS.finditer(text):
                bases = re.split(r"\s*,\s*", found[2].strip())
                self._bases[found[1]] = tuple(
                    re.findall(_NAME, word)[-1] for base in bases for word in base.split("<")
                )
                inline[found[1]] = path, _block(text, found.end() - 1)
            for found in _MEMBER.finditer(text):
                body = _body_after(text, found.end() - 1)
                if body:
                    self._members.setdefault((found[1], found[2]), (path, body))
        for kind, (path, text) in inline.items():
            for name in (kind, "getPluginName", "getPluginVersion", "createPlugin"):
                for found in re.finditer(rf"(?<![\w~:]){name}\s*\(", text):
                    body = _body_after(text, found.end() - 1)
                    if body:
                        self._members.setdefault((kind, name), (path, body))

    def creators(self) -> tuple[StockCreator, ...]:
        """The creators that libnvinfer_plugin registers, by name and version. Raises ValueError for an unreadable one."""
        found = {}
        for kind in self._registered():
            creator = None if kind in self.absent() else self._creator(kind)
            if creator is not None:
                found[(creator.name, creator.version)] = creator
        return tuple(found[key] for key in sorted(found))

    def absent(self) -> tuple[str, ...]:
        """Registered classes without a source file, as not every release was published completely."""
        known = {*self._bases, *self._instances, *(kind for kind, _ in self._members)}
        return tuple(kind for kind in self._registered() if kind not in known)

    def _registered(self) -> Iterator[str]:
        """The registered creator classes."""
        for path, text in sorted(self._files.items()):
            yield from re.findall(r"\bREGISTER_TENSORRT_PLUGIN\s*\(\s*(?:\w+::)*(\w+)\s*\)\s*;", text)
            if path.endswith("api/inferPlugin.cpp"):
                yield from re.findall(r"\binitializePlugin<(?:\w+::)*(\w+)>\s*\(\s*logger", text)

    def _creator(self, kind: str) -> StockCreator | None:
        """The creator; None for one whose createPlugin creates nothing and which only serves old engines."""
        template, argument = self._instances.get(kind, (kind, ""))
        interface = self._interface(template, argument)
        if not interface:
            return None
        name = self._text(template, "getPluginName")
        version = self._text(argument or template, "getPluginVersion")
        fields = tuple(self._fields(template))
        named = re.search(_REQUIRED, self._inherited(template, "createPlugin")[1])
        required = tuple(re.findall(r'"(\w+)"', named[1])) if named else ()
        return StockCreator(name, version, interface, fields, required)

    def _fields(self, kind: str) -> Iterator[StockField]:
        for base in self._bases.get(kind, ()):
            if self._member(base, base) is not None:
                yield from self._fields(base)
        path, body = self._member(kind, kind) or ("", "")
        read = list(_FIELD.finditer(body))
        if len(read) != len(re.findall(r"\bPluginField\b\s*[({]", body)) or (
            not read and "emplace_back" in body
        ):
            raise ValueError(f"a field of {kind} cannot be read in {path}")
        for field in read:
            name = field[1] or self._constant(field[2], path)
            yield StockField(name, _WORDS[(field[3] or "UNKNOWN").lower()], int(field[4] or 0))

    def _text(self, kind: str, function: str) -> str:
        """The string that a function returns."""
        path, body = self._inherited(kind, function)
        found = re.search(rf"\breturn\s+(?:\"([^\"]*)\"|({_NAME})(?:\[(\d+)\])?(?:\.c_str\(\))?)\s*;", body)
        if not found:
            raise ValueError(f"{kind}::{function} cannot be read in {path}")
        if found[1] is not None:
            return found[1]
        name, index = found[2], found[3]
        constructed = self._member(kind, kind)
        assigned = constructed and re.search(rf"\b{name}\s*=\s*({_NAME})(?:\[(\d+)\])?\s*;", constructed[1])
        if assigned:
            name, index = assigned[1], assigned[2]
        return self._constant(name, path, int(index or 0))

    def _constant(self, name: str, path: str, index: int = 0) -> str:
        """The string constant of that name in the file, else in its folder, else anywhere."""
        folder = path.rpartition("/")[0]
        for where in (path, *(p for p in self._files if p.rpartition("/")[0] == folder), *self._files):
            words = self._constants[where].get(name, ())
            if len(words) > index:
                return words[index]
        raise ValueError(f"the constant {name} is not found for {path}")

    def _member(self, kind: str, function: str) -> tuple[str, str] | None:
        """(file, body) of a class's own member function, defined inside or outside of the class."""
        return self._members.get((kind, function))

    def _inherited(self, kind: str, function: str) -> tuple[str, str]:
        """The same for the class, or else its first base that has it."""
        own = self._member(kind, function)
        if own is not None:
            return own
        for base in self._bases.get(kind, ()):
            if base in self._bases:
                return self._inherited(base, function)
        raise ValueError(f"{kind}::{function} is not found")

    def _interface(self, kind: str, argument: str) -> str:
        """The interface of a plugin class. argument: of a template, the plugin's class."""
        if "IPluginCreatorV3One" in self._ancestors(kind):
            return "IPluginV3"
        path, body = self._inherited(kind, "createPlugin")
        plugins = [argument] if argument else re.findall(_NAME, re.sub(r'"[^"]*"', "", body))
        for plugin in plugins:
            for interface in INTERFACES:
                if plugin in self._bases and interface in self._ancestors(plugin):
                    return interface
        if re.search(r"return\s+nullptr\s*;\s*\}$", body) and not re.search(r"\bnew\b|make_unique", body):
            return ""
        raise ValueError(f"the plugin that {kind} makes is not found in {path}")

    def _ancestors(self, kind: str) -> set[str]:
        found = {kind}
        for base in self._bases.get(kind, ()):
            found |= self._ancestors(base)
        return found


def _body_after(text: str, start: int) -> str:
    """The body of a function whose parameters open at `start`; "" for a call or a declaration."""
    end = _closing(text, start, "()")
    after = re.compile(r"\s*(?:(?:const|noexcept|override|final|[A-Z_]+)\b\s*)*").match(text, end)
    position = after.end() if after else end
    if text[position : position + 1] == ":" and text[position : position + 2] != "::":
        while True:  # initialisers: name(...) or name{...}, with commas between
            opening = re.compile(r"[\s:,\w<>]*?([({])").match(text, position)
            if opening is None:
                return ""
            position = _closing(text, opening.end() - 1, "()" if opening[1] == "(" else "{}")
            if not (comma := re.compile(r"\s*,").match(text, position)):
                break
            position = comma.end()
        position += len(text[position:]) - len(text[position:].lstrip())
    return _block(text, position) if text[position : position + 1] == "{" else ""


def _closing(text: str, start: int, pair: str) -> int:
    """The position after the bracket that closes the one at `start`."""
    depth = 0
    for found in re.compile(f"[{re.escape(pair)}]").finditer(text, start):
        depth += 1 if found[0] == pair[0] else -1
        if depth == 0:
            return found.end()
    raise ValueError("a bracket is not closed")


def _block(text: str, start: int) -> str:
    """The text from an opening brace to its closing one."""
    return text[start : _closing(text, start, "{}")]
