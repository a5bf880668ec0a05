# Generated from the declared options: python scripts/generate_docs.py

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from trtsmith.converter.base.options.kinds import (
    AccumulateName,
    Arrays,
    CudaGraphMode,
    EnginePrecision,
    ExecutorName,
    FlavourName,
    Freeze,
    GraphRuntime,
    Paths,
    PrecisionName,
    Progress,
    Ranges,
    References,
    Samples,
    SpecializationMode,
    StrPath,
    Texts,
    Tolerance,
    VerifyMode,
)

class ConvertKeywords(TypedDict, total=False):
    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: StrPath | None
    export_timeout: float | None
    data_folder: StrPath | None
    shapes: Ranges | None
    values: Ranges | None
    freeze: Freeze
    inputs: Arrays | None
    precision: PrecisionName
    keep_fp32: Texts
    keep_only: bool
    accumulate: AccumulateName
    float_lstm: bool
    io_precision: bool
    calibration: Samples
    recipe: StrPath | None
    target: Texts
    flavour: FlavourName
    embed_plugins: bool
    workspace: int | None
    timing_cache: StrPath | None
    optimization_level: int | None
    layer_details: bool
    timeout: float | None
    plugins: Paths
    prefer_stock: bool
    as_is: bool
    bundle_for: str
    plugins_aarch64: StrPath | None
    memory_pool_limit: Texts
    refit: bool
    strip_plan: bool
    version_compatible: bool
    sparsity: str
    use_dla_core: int | None
    tactic_sources: Texts
    hardware_compatibility_level: str
    weight_streaming: bool
    strongly_typed: bool
    mend: bool
    mend_with: Texts
    reduce: bool
    reduce_timeout: float
    refused: StrPath | None
    expected: Arrays | None
    reference: References | None
    rtol: Tolerance | None
    atol: Tolerance | None
    not_compared: Texts
    compare: Mapping[str, str] | None
    max_cost: float | None
    verify: VerifyMode | None
    output: StrPath | None
    force: bool
    html: StrPath | None
    ops: Paths
    plugins_from_packages: bool
    verbose: bool
    progress: Progress | None

class CheckKeywords(TypedDict, total=False):
    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: StrPath | None
    export_timeout: float | None
    data_folder: StrPath | None
    shapes: Ranges | None
    values: Ranges | None
    freeze: Freeze
    inputs: Arrays | None
    precision: PrecisionName
    keep_fp32: Texts
    keep_only: bool
    accumulate: AccumulateName
    float_lstm: bool
    io_precision: bool
    calibration: Samples
    flavour: FlavourName
    plugins: Paths
    prefer_stock: bool
    build: bool
    target: Texts
    optimization_level: int | None
    timeout: float | None
    mend: bool
    mend_with: Texts
    reduce: bool
    reduce_timeout: float
    refused: StrPath | None
    force: bool
    ops: Paths
    plugins_from_packages: bool

class RewriteKeywords(TypedDict, total=False):
    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: StrPath | None
    export_timeout: float | None
    data_folder: StrPath | None
    shapes: Ranges | None
    values: Ranges | None
    freeze: Freeze
    inputs: Arrays | None
    precision: PrecisionName
    keep_fp32: Texts
    keep_only: bool
    accumulate: AccumulateName
    float_lstm: bool
    io_precision: bool
    calibration: Samples
    force: bool
    output: StrPath | None
    flavour: FlavourName
    expand: bool
    plugin_v2: bool
    runtime: GraphRuntime
    ops: Paths
    plugins_from_packages: bool

class VerifyKeywords(TypedDict, total=False):
    data_folder: StrPath | None
    inputs: Arrays | None
    shapes: Ranges | None
    expected: Arrays | None
    reference: References | None
    load_inputs: Paths
    load_outputs: StrPath | None
    save_inputs: StrPath | None
    save_outputs: StrPath | None
    rtol: Tolerance | None
    atol: Tolerance | None
    not_compared: Texts
    compare: Mapping[str, str] | None
    precision: EnginePrecision
    plugins: Paths
    flavour: FlavourName
    timeout: float | None
    force: bool
    html: StrPath | None
    ops: Paths
    plugins_from_packages: bool
    verbose: bool
    progress: Progress | None

class LocateKeywords(TypedDict, total=False):
    data_folder: StrPath | None
    on: ExecutorName
    native: bool
    all: bool
    memory: int
    shapes: Ranges | None
    values: Ranges | None
    freeze: Freeze
    inputs: Arrays | None
    precision: PrecisionName
    keep_fp32: Texts
    keep_only: bool
    accumulate: AccumulateName
    float_lstm: bool
    io_precision: bool
    calibration: Samples
    plugins: Paths
    flavour: FlavourName
    timeout: float | None
    rtol: Tolerance | None
    atol: Tolerance | None
    output: StrPath | None
    force: bool
    html: StrPath | None
    ops: Paths
    plugins_from_packages: bool
    progress: Progress | None

class BenchKeywords(TypedDict, total=False):
    shapes: Ranges | None
    at: Texts
    inputs: Arrays | None
    freeze: Texts
    warmup_ms: float
    duration_s: float
    iterations: int
    streams: int
    transfers: bool
    cuda_graph: CudaGraphMode
    layers: int
    against: Texts
    torch: str
    plugin_vs_native: bool
    plugins: Paths
    flavour: FlavourName
    timeout: float | None
    force: bool
    html: StrPath | None
    ops: Paths
    plugins_from_packages: bool
    verbose: bool
    progress: Progress | None

class RunKeywords(TypedDict, total=False):
    plugins: Paths
    flavour: FlavourName
    timeout: float | None
    embedded_plugins: bool
    profile: int
    runtime_cache: StrPath | None
    specialization: SpecializationMode
    cuda_graph: bool
    force: bool
    verbose: bool
    progress: Progress | None

class RefitKeywords(TypedDict, total=False):
    force: bool
    output: StrPath | None
    plugins: Paths
    flavour: FlavourName
    timeout: float | None
    ops: Paths
    plugins_from_packages: bool
    verbose: bool
    progress: Progress | None

class TuneKeywords(TypedDict, total=False):
    dynamic_shapes: Any
    custom_translation_table: Mapping[Any, Any] | None
    save_onnx: StrPath | None
    export_timeout: float | None
    data_folder: StrPath | None
    shapes: Ranges | None
    values: Ranges | None
    freeze: Freeze
    inputs: Arrays | None
    max_error: Tolerance | None
    minutes: float
    samples: Samples
    precisions: Texts
    flavour: FlavourName
    embed_plugins: bool
    workspace: int | None
    timing_cache: StrPath | None
    timeout: float | None
    plugins: Paths
    prefer_stock: bool
    expected: Arrays | None
    reference: References | None
    output: StrPath | None
    force: bool
    html: StrPath | None
    ops: Paths
    plugins_from_packages: bool
    verbose: bool
    progress: Progress | None
