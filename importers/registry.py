"""Lists the operators that trtsmith knows, explicitly: no import side effects.

OPS are our own. `operators()` are these and those of the packages in force, and look-ups are in all of them: nothing may
keep what it finds here for longer than it works on one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property

import onnx.defs

from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Alias, Attr, OpDef
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.ops.bev.bev_pool import BEV_POOL
from trtsmith.importers.ops.bev.pillar_scatter import PILLAR_SCATTER
from trtsmith.importers.ops.bev.voxel_generation import VOXEL_GENERATION
from trtsmith.importers.ops.box_sampling.border_align import BORDER_ALIGN
from trtsmith.importers.ops.box_sampling.rotated_feature_align import ROTATED_FEATURE_ALIGN
from trtsmith.importers.ops.box_selection import BOX_SELECTION
from trtsmith.importers.ops.deformable_convolution import DEFORMABLE_CONVOLUTION
from trtsmith.importers.ops.matrix_inverse import MATRIX_INVERSE
from trtsmith.importers.ops.modulated_deformable_convolution import MODULATED_DEFORMABLE_CONVOLUTION
from trtsmith.importers.ops.multiscale_deformable_attention import MULTISCALE_DEFORMABLE_ATTENTION
from trtsmith.importers.ops.multiscale_deformable_attention_from_offsets import (
    MULTISCALE_DEFORMABLE_ATTENTION_FROM_OFFSETS,
)
from trtsmith.importers.ops.neighbourhood_attention import NEIGHBOURHOOD_ATTENTION
from trtsmith.importers.ops.non_zero_positions import NON_ZERO_POSITIONS
from trtsmith.importers.ops.points.ball_neighbours import BALL_NEIGHBOURS
from trtsmith.importers.ops.points.farthest_point_sampling import FARTHEST_POINT_SAMPLING
from trtsmith.importers.ops.points.nearest_neighbours import NEAREST_NEIGHBOURS
from trtsmith.importers.ops.reduction.ascending_order import ASCENDING_ORDER
from trtsmith.importers.ops.reduction.dynamic_indexed_reduction import DYNAMIC_INDEXED_REDUCTION
from trtsmith.importers.ops.reduction.indexed_accumulation import INDEXED_ACCUMULATION
from trtsmith.importers.ops.reduction.indexed_reduction import INDEXED_REDUCTION
from trtsmith.importers.ops.reduction.segment_reduction import SEGMENT_REDUCTION
from trtsmith.importers.ops.regions.deformable_region_pool import DEFORMABLE_REGION_POOL
from trtsmith.importers.ops.regions.position_sensitive_region_align import POSITION_SENSITIVE_REGION_ALIGN
from trtsmith.importers.ops.regions.precise_region_pool import PRECISE_REGION_POOL
from trtsmith.importers.ops.regions.pyramid_region_align import PYRAMID_REGION_ALIGN
from trtsmith.importers.ops.regions.pyramid_rotated_region_align import PYRAMID_ROTATED_REGION_ALIGN
from trtsmith.importers.ops.regions.region_align import REGION_ALIGN
from trtsmith.importers.ops.regions.region_pool import REGION_POOL
from trtsmith.importers.ops.regions.rotated_region_align import ROTATED_REGION_ALIGN
from trtsmith.importers.ops.sampling.correlation_lookup import CORRELATION_LOOKUP
from trtsmith.importers.ops.sampling.feature_aggregation import FEATURE_AGGREGATION
from trtsmith.importers.ops.sampling.feature_reassembly import FEATURE_REASSEMBLY
from trtsmith.importers.ops.sampling.grouped_deformable_sampling import GROUPED_DEFORMABLE_SAMPLING
from trtsmith.importers.ops.sampling.local_correlation import LOCAL_CORRELATION
from trtsmith.importers.ops.sampling.volume_sampling import VOLUME_SAMPLING
from trtsmith.importers.ops.selected_slices import SELECTED_SLICES
from trtsmith.importers.ops.selection.detection_selection import DETECTION_SELECTION
from trtsmith.importers.ops.selection.rotated_box_selection import ROTATED_BOX_SELECTION
from trtsmith.importers.ops.selection.soft_box_selection import SOFT_BOX_SELECTION
from trtsmith.importers.ops.selection.top_elements import TOP_ELEMENTS
from trtsmith.importers.ops.sparse.rulebook_convolution import RULEBOOK_CONVOLUTION
from trtsmith.importers.ops.sparse.strided_rulebook import STRIDED_RULEBOOK
from trtsmith.importers.ops.sparse.submanifold_rulebook import SUBMANIFOLD_RULEBOOK
from trtsmith.importers.ops.state_space_scan import STATE_SPACE_SCAN
from trtsmith.importers.ops.unique_slices import UNIQUE_SLICES

OPS: tuple[OpDef, ...] = (
    MULTISCALE_DEFORMABLE_ATTENTION,
    MULTISCALE_DEFORMABLE_ATTENTION_FROM_OFFSETS,
    MODULATED_DEFORMABLE_CONVOLUTION,
    DEFORMABLE_CONVOLUTION,
    MATRIX_INVERSE,
    NON_ZERO_POSITIONS,
    SELECTED_SLICES,
    UNIQUE_SLICES,
    BOX_SELECTION,
    REGION_ALIGN,
    ROTATED_REGION_ALIGN,
    PYRAMID_REGION_ALIGN,
    PYRAMID_ROTATED_REGION_ALIGN,
    POSITION_SENSITIVE_REGION_ALIGN,
    DEFORMABLE_REGION_POOL,
    REGION_POOL,
    DETECTION_SELECTION,
    ROTATED_BOX_SELECTION,
    SOFT_BOX_SELECTION,
    TOP_ELEMENTS,
    BEV_POOL,
    PILLAR_SCATTER,
    GROUPED_DEFORMABLE_SAMPLING,
    SUBMANIFOLD_RULEBOOK,
    STRIDED_RULEBOOK,
    RULEBOOK_CONVOLUTION,
    VOLUME_SAMPLING,
    FEATURE_REASSEMBLY,
    VOXEL_GENERATION,
    SEGMENT_REDUCTION,
    INDEXED_REDUCTION,
    DYNAMIC_INDEXED_REDUCTION,
    INDEXED_ACCUMULATION,
    LOCAL_CORRELATION,
    PRECISE_REGION_POOL,
    BORDER_ALIGN,
    ROTATED_FEATURE_ALIGN,
    ASCENDING_ORDER,
    STATE_SPACE_SCAN,
    FARTHEST_POINT_SAMPLING,
    BALL_NEIGHBOURS,
    NEAREST_NEIGHBOURS,
    FEATURE_AGGREGATION,
    CORRELATION_LOOKUP,
    NEIGHBOURHOOD_ATTENTION,
)
"""Our operators, in the order of the libraries' list (plugins_cpp/ops/list.cmake). What a part of them has in common, an
OpDef says by a property: it has a PyTorch side, benchmarks, size tensors."""

PROVIDER_DOMAIN = "trt.plugins"
"""onnxruntime's TensorRT provider finds plugins in this domain; nvidia-modelopt moves custom nodes there for it."""


@dataclass(frozen=True, eq=False)
class KnownOperators:
    """The packages in force, and the look-up tables of their operators and ours."""

    packages: tuple[OperatorPackage, ...] = ()

    @cached_property
    def operators(self) -> tuple[OpDef, ...]:
        return (*OPS, *(op for package in self.packages for op in package.operators))

    @cached_property
    def by_name(self) -> Mapping[str, OpDef]:
        return {op.name: op for op in self.operators}

    @cached_property
    def package_of(self) -> Mapping[str, OperatorPackage]:
        """Packages by the names of their operators; ours belong to none."""
        return {op.name: package for package in self.packages for op in package.operators}

    @cached_property
    def aliases(self) -> Mapping[str, tuple[tuple[OpDef, Alias], ...]]:
        """Aliases by op_type, in the order to try them."""
        index: dict[str, list[tuple[OpDef, Alias]]] = {}
        for op in self.operators:
            for alias in (*op.aliases, own_alias(op)):
                index.setdefault(alias.op_type, []).append((op, alias))
        return {name: tuple(pairs) for name, pairs in index.items()}


_IN_FORCE: ContextVar[KnownOperators] = ContextVar("trtsmith_operators", default=KnownOperators())  # noqa: B039 (frozen)


@contextmanager
def using(packages: Iterable[OperatorPackage]) -> Iterator[None]:
    """Puts these packages, and no others, in force inside the block. A thread started there begins without them.

    What they bring is taken as it is: trtsmith.converter.operators checks packages before.
    """
    token = _IN_FORCE.set(KnownOperators(tuple(packages)))
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def packages_in_force() -> tuple[OperatorPackage, ...]:
    """Returns the packages in force, in the order in which they were given."""
    return _IN_FORCE.get().packages


def operators() -> tuple[OpDef, ...]:
    """Returns our operators, and those of the packages in force."""
    return _IN_FORCE.get().operators


def by_name() -> Mapping[str, OpDef]:
    """Returns operators by plugin name."""
    return _IN_FORCE.get().by_name


def package_of(op_name: str) -> OperatorPackage | None:
    """Returns the package in force that brings this operator, or None for one of ours."""
    return _IN_FORCE.get().package_of.get(op_name)


def standing_for(op_type: str) -> OpDef:
    """Returns our operator that a rule puts in place of this ONNX operator."""
    return next(op for op in OPS if op.onnx == op_type)


def own_alias(op: OpDef) -> Alias:
    """Makes the alias `trtsmith::<name>`, which the torch exporter writes: ports and fields under their own names."""
    return Alias(
        op_type=op.name,
        domains=(PLUGIN_NAMESPACE,),
        inputs=tuple(port.name + "?" * port.optional for port in op.inputs),
        outputs=tuple(port.name for port in op.outputs),
        attributes=tuple(
            Attr(f.name, f.kind, f.default, (f.length,) if f.length is not None else ()) for f in op.fields
        ),
        source="trtsmith",
    )


OperatorId = tuple[str, str]
"""Domain, as `normalise_domain` gives it, and op_type."""

FunctionId = tuple[str, str, str]
"""Domain, as `normalise_domain` gives it, name and overload of a function of a model."""


def normalise_domain(domain: str | None) -> str:
    """Returns "" for both names of the default domain."""
    return "" if domain in (None, "ai.onnx") else str(domain)


def op_name(node: onnx.NodeProto) -> str:
    """Returns the op_type with its domain, as domain::op_type, without it for ONNX's."""
    domain = normalise_domain(node.domain)
    return f"{domain}::{node.op_type}" if domain else node.op_type


@cache
def _is_standard(op_type: str) -> bool:
    return onnx.defs.has(op_type)


def find_aliases(domain: str | None, op_type: str) -> tuple[tuple[OpDef, Alias], ...]:
    """Returns every (operator, alias) that a node of this domain and op_type may mean, in the order to try them.

    modelopt's domain matches every alias, and so does no domain at all (old models), unless ONNX has an operator of
    that name.
    """
    domain = normalise_domain(domain)
    aliases = _IN_FORCE.get().aliases
    anywhere = domain == PROVIDER_DOMAIN or (domain == "" and not _is_standard(op_type))
    return tuple((op, alias) for op, alias in aliases.get(op_type, ()) if anywhere or domain in alias.domains)


def known_domains() -> frozenset[str]:
    """Returns the domains of all aliases, which tell custom operators from standard ones."""
    return frozenset(
        d for pairs in _IN_FORCE.get().aliases.values() for _, s in pairs for d in s.domains if d
    )


def alias_names() -> tuple[str, ...]:
    """Returns every op_type that is an alias of some operator."""
    return tuple(sorted(_IN_FORCE.get().aliases))
