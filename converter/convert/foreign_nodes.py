"""Plans nodes of foreign plugins: those of the user's libraries and TensorRT's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import misspelt
from trtsmith.converter.convert.node_problems import new_command
from trtsmith.converter.engine.builder.build_request import PluginUse
from trtsmith.converter.engine.builder.flavour import expected_target
from trtsmith.converter.rewrite.target import Target
from trtsmith.importers.declared.declared_creators import PARSER_VERSION, DeclaredCreator, matching
from trtsmith.importers.declared.declared_fields import attribute_faults, attribute_notes, passed_fields
from trtsmith.importers.declared.stock import StockPlugin, stock_op_types, stock_plugins, stock_table
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain, op_name

_MOST_NAMED = 12


@dataclass(frozen=True)
class ForeignPlan:
    """The plan for a foreign node. stock: whether the plugin is TensorRT's; use: None if there is a problem."""

    how: str
    stock: bool
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    use: PluginUse | None = None
    creator: DeclaredCreator | None = None


@dataclass(frozen=True)
class ForeignPlugins:
    """The foreign plugins of a build. creators: in the user's libraries; stock: in the TensorRT that builds.

    libraries: the user's, for messages. target: the TensorRT; None if none was chosen.
    problems: what keeps whole libraries from being loaded.
    """

    creators: tuple[DeclaredCreator, ...] = ()
    stock: tuple[StockPlugin, ...] = ()
    libraries: tuple[Path, ...] = ()
    target: Target | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all foreign plugins, which claim nodes with these op_types."""
        return frozenset(c.name for c in self.creators) | frozenset(s.creator.name for s in self.stock)

    def plan(self, node: onnx.NodeProto) -> ForeignPlan | None:
        """Returns the plan for a node; None if no plugin has its op_type."""
        if any(creator.name == node.op_type for creator in self.creators):
            return self._held(node, self.creators, stock=False)
        of_tensorrt = tuple(s.creator for s in self.stock if s.creator.name == node.op_type)
        return self._held(node, of_tensorrt, stock=True) if of_tensorrt else None

    def imports(self, op_type: str) -> bool:
        """Tells whether the building TensorRT's own parser imports an operator that our table lacks."""
        if self.target is None:
            return False
        # A check of a model without such operators starts no process, and does without what starts them.
        from trtsmith.converter.engine.builder.build import parser_imports

        return parser_imports(self.target.flavour, op_type)

    def missing(self, node: onnx.NodeProto, model: Path) -> Problem | None:
        """Returns the reason why no foreign plugin takes the node; None if plugins have nothing to do with it. model: its
        file.
        """
        where = f"node {node.name!r} ({op_name(node)})"
        elsewhere = [plugin for plugin in stock_table() if plugin.creator.name == node.op_type]
        what = f"no importer for operator {op_name(node)}"
        if elsewhere and self.target is not None:
            releases = " and ".join(dict.fromkeys(plugin.releases for plugin in elsewhere))
            if self.target.is_rtx:
                what = f"{node.op_type} is a plugin that TensorRT brings, and {self.target.title} comes without it"
                fix = "build with TensorRT (--flavour tensorrt), or load a plugin library that has it with --plugins"
            else:
                what = f"{self.target.title} does not bring the plugin {node.op_type}"
                fix = f"build with a TensorRT that has it, or load a library that has it with --plugins: {releases}"
            return Problem(what, where, f"a TensorRT with this plugin: {releases}", fix)
        if not self.creators:
            return None
        held = sorted({creator.name for creator in self.creators})
        shown = ", ".join(held[:_MOST_NAMED]) + (
            f" and {len(held) - _MOST_NAMED} more" * (len(held) > _MOST_NAMED)
        )
        near = misspelt(node.op_type, held)
        fix = (
            f"did you mean {near[0]!r}, which computes something else if the name is right? " if near else ""
        )
        libraries = ", ".join(map(str, self.libraries))
        return Problem(
            f"{what}, and no plugin in {libraries} matches",
            where,
            f"an operator that TensorRT's ONNX parser imports, one that `trtsmith ops` lists, or one of the plugins "
            f"that were given: {shown}",
            f"{fix}give the library that has it with --plugins, or write one of your own, from "
            f"`{new_command(node, model)}`",
        )

    def _held(self, node: onnx.NodeProto, creators: Sequence[DeclaredCreator], *, stock: bool) -> ForeignPlan:
        where = f"node {node.name!r} ({op_name(node)})"
        named = {attribute.name: attribute for attribute in node.attribute}
        home = self.target.title if stock and self.target is not None else ""
        words = []
        for name, default in (("plugin_version", PARSER_VERSION), ("plugin_namespace", "")):
            attribute = named.get(name)
            if attribute is not None and attribute.type != onnx.AttributeProto.STRING:
                fix = f'write it as a string, {name}="1"'
                problem = Problem(
                    f"attribute {name!r} is not a string",
                    where,
                    "a string: TensorRT's parser reads no other type here",
                    fix,
                )
                return ForeignPlan(problem.what, stock, (problem,))
            words.append(default if attribute is None else attribute.s.decode("utf-8", "replace"))
        version, namespace = words
        domain = normalise_domain(node.domain)
        creator = matching(creators, node.op_type, version, namespace, domain)
        if creator is None:
            problem = _no_such(node, version, namespace, creators, home)
            return ForeignPlan(problem.what, stock, (problem,))
        attributes = list(node.attribute)
        problems = self._of_interface(creator, where) + tuple(
            Problem(fault.reason, where, fault.expected, fault.fix)
            for fault in attribute_faults(creator, attributes)
        )
        notes = tuple(f"{where}: {note}" for note in attribute_notes(creator, attributes))
        how = f"stock plugin {creator} of {home}" if stock else f"plugin {creator} of {creator.home}"
        fields = passed_fields(creator, attributes)
        use = None
        if not problems and fields is not None:
            use = PluginUse(node.name, creator.name, creator.version, creator.namespace, fields, partial=True)
        return ForeignPlan(how, stock, problems, notes, use, creator)

    def _of_interface(self, creator: DeclaredCreator, where: str) -> tuple[Problem, ...]:
        if self.target is None or not self.target.is_rtx or creator.family == 3:
            return ()
        return (
            Problem(
                f"the plugin {creator} is not an IPluginV3 plugin",
                where,
                f"an IPluginV3 plugin: the ONNX parser of {self.target.title} imports no other",
                "load a library that has it as IPluginV3, or build with TensorRT (--flavour tensorrt)",
            ),
        )


def foreign_plugins(libraries: tuple[Path, ...], target: Target) -> ForeignPlugins:
    """Finds the plugins of the user's libraries, each loaded in a child process, and of the target."""
    stock = () if target.is_rtx else stock_plugins(target.version[:2])
    creators: tuple[DeclaredCreator, ...] = ()
    problems: tuple[Problem, ...] = ()
    if libraries:
        from trtsmith.converter.plugin.creators import held_plugins  # only those who have one pay

        held = held_plugins(libraries)
        creators = tuple(creator for one in held for creator in one.creators)
        problems = tuple(filter(None, (one.unloadable(target) for one in held)))
    return ForeignPlugins(creators, stock, libraries, target, problems)


def target_of(flavour: str, *, prefer_stock: bool = False) -> Target:
    """Returns the target for a flavour. prefer_stock: leaves nodes to TensorRT's plugins even if ours could take them.

    UsageError for a TensorRT that brings none.
    """
    target = expected_target(flavour)
    if not prefer_stock:
        return target
    if target.is_rtx:
        what = f"{target.title} has no plugins of its own to prefer"
        fix = "leave the flag out, or build with TensorRT (--flavour tensorrt)"
        raise UsageError(what, "--prefer-stock", "TensorRT, whose plugins are in libnvinfer_plugin", fix)
    held = {plugin.creator.name for plugin in stock_plugins(target.version[:2])}
    return replace(target, stock=frozenset(held & stock_op_types()))


def _no_such(
    node: onnx.NodeProto, version: str, namespace: str, creators: Sequence[DeclaredCreator], home: str
) -> Problem:
    """The problem of a node that names a missing version or namespace of a plugin."""
    held = [creator for creator in creators if creator.name == node.op_type]
    owner = home or ", ".join(dict.fromkeys(creator.home for creator in held))
    asked = f"{namespace or '(no namespace)'}::{node.op_type} version {version}"
    if all(creator.version != version for creator in held):
        one = held[-1]
        fix = f'give the node plugin_version="{one.version}", a string'
    else:
        one = next(creator for creator in held if creator.version == version)
        fix = f'give the node plugin_namespace="{one.namespace}"'
    listed = ", ".join(f"{c.namespace or '(no namespace)'}::{c.name} version {c.version}" for c in held)
    return Problem(
        f"{owner} has no plugin {asked}",
        f"node {node.name!r} ({op_name(node)})",
        f"one that it has: {listed}",
        f"{fix}, or load the library that has it",
    )
