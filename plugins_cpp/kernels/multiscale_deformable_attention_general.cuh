// The general kernel of multi-scale deformable attention, and the choice between it and the team kernel.
#pragma once

#include "convert.cuh"
#include "dispatch.cuh"
#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_source.cuh"
#include "multiscale_deformable_attention_team.cuh"

namespace trtsmith {

// The kernel for what teamKernel cannot take: any number of channels, samples or queries, unaligned tensors, values too
// large for 32-bit word indices. A thread owns `vectorBytes` of the channels of one head, and every thread works out every
// sample.
// Deformable-DETR's encoder, batch 1, on an H200: 117 us (fp16) and 179 us (fp32).
struct AttentionTuning {
    int threads;
    int vectorBytes;
};

constexpr AttentionTuning attentionTuning(size_t elementSize) {
    return elementSize == 2 ? AttentionTuning{128, 16} : AttentionTuning{256, 16};
}

template <typename Source>
struct AttentionArguments : Source::Arguments {
    using T = typename Source::Element;
    using Extra = typename Source::Arguments;

    const T* value;
    const void* spatialShapes;
    const void* levelStartIndex;
    const T* positions;
    const T* weights;
    T* output;
    MultiscaleDeformableAttentionShape shape;
    int64_t vectors;  // per head: channels / kVector
    int64_t items;    // batch * queries * heads * vectors
    bool wideIndices;
};

template <typename Source, int kVector>
__global__ void __launch_bounds__(attentionTuning(sizeof(typename Source::Element)).threads)
    attentionKernel(const AttentionArguments<Source> a) {
    using T = typename Source::Element;
    const int64_t points = a.shape.points;
    // Rows and offsets are unsigned: with hostile starts they wrap instead of overflowing, and the one comparison with
    // `keys` refuses both ends.
    const uint64_t keys = static_cast<uint64_t>(a.shape.keys);
    const uint64_t rowElements = static_cast<uint64_t>(a.shape.heads * a.shape.channels);
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;

    for (int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; item < a.items; item += step) {
        const int64_t site = item / a.vectors;  // (batch, query, head)
        const int64_t vector = item - site * a.vectors;
        const int64_t batchQuery = site / a.shape.heads;
        const int64_t head = site - batchQuery * a.shape.heads;
        const int64_t batch = batchQuery / a.shape.queries;

        const T* value = a.value + batch * a.shape.keys * static_cast<int64_t>(rowElements) + head * a.shape.channels +
                         vector * kVector;
        typename Source::Cursor samples(a, site, batchQuery, batch);

        float sums[kVector];
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
            sums[i] = 0.0F;
        }

        for (int64_t level = 0; level < a.shape.levels; ++level) {
            const int32_t height = levelSide(loadIndex(a.spatialShapes, level * 2, a.wideIndices));
            const int32_t width = levelSide(loadIndex(a.spatialShapes, level * 2 + 1, a.wideIndices));
            const uint64_t start = static_cast<uint64_t>(loadIndex(a.levelStartIndex, level, a.wideIndices));

            samples.enterLevel(level, a);
#pragma unroll 2
            for (int64_t point = 0; point < points; ++point) {
                const SamplePosition position = samples.position(height, width, a);
                const BilinearCell cell = cellAt(position, height, width);
                const float weight = samples.weight();
                samples.advance(a);

                const int64_t rowInLevel = static_cast<int64_t>(cell.row) * width + cell.column;
                const uint64_t row = start + static_cast<uint64_t>(rowInLevel);
                float values[4][kVector];
                float factors[4];
#pragma unroll
                for (int corner = 0; corner < 4; ++corner) {
                    const uint64_t cornerRow = row + (corner >= 2 ? static_cast<uint64_t>(width) : 0U) + (corner & 1);
                    const bool valid = (cell.valid >> corner & 1U) != 0U && cornerRow < keys;
                    loadFloats<kVector>(value + cornerRow * rowElements, valid, values[corner]);
                    // Zero, and not weight * 0, so that a point outside stays without effect for any weight.
                    factors[corner] = valid ? weight * cell.weights[corner] : 0.0F;
                }
#pragma unroll
                for (int corner = 0; corner < 4; ++corner) {
#pragma unroll
                    for (int i = 0; i < kVector; ++i) {
                        sums[i] = fmaf(factors[corner], values[corner][i], sums[i]);
                    }
                }
            }
        }
        storeFloats<kVector>(a.output + item * kVector, sums);
    }
}

template <typename Source, int kVector>
cudaError_t launchAttention(AttentionArguments<Source> arguments, cudaStream_t stream) {
    constexpr int kThreads = attentionTuning(sizeof(typename Source::Element)).threads;
    arguments.vectors = arguments.shape.channels / kVector;
    arguments.items = arguments.shape.batch * arguments.shape.queries * arguments.shape.heads * arguments.vectors;
    return launch(attentionKernel<Source, kVector>, gridBlocks(ceilDivide(arguments.items, kThreads)), kThreads, 0,
                  stream, arguments);
}

// Every row of value and output is heads * channels long, so the channels and the two base addresses decide the width.
template <typename Source>
bool fitsVector(const AttentionArguments<Source>& arguments, int vector) {
    const size_t bytes = static_cast<size_t>(vector) * sizeof(typename Source::Element);
    return arguments.shape.channels % vector == 0 && isAligned(arguments.value, bytes) &&
           isAligned(arguments.output, bytes);
}

template <typename Source>
cudaError_t chooseVector(const AttentionArguments<Source>& arguments, cudaStream_t stream) {
    using T = typename Source::Element;
    constexpr int kWide = attentionTuning(sizeof(T)).vectorBytes / static_cast<int>(sizeof(T));
    constexpr int kNarrow = 4 / static_cast<int>(sizeof(T));
    if (fitsVector(arguments, kWide)) {
        return launchAttention<Source, kWide>(arguments, stream);
    }
    if (kNarrow > 1 && fitsVector(arguments, kNarrow)) {
        return launchAttention<Source, kNarrow>(arguments, stream);
    }
    return launchAttention<Source, 1>(arguments, stream);
}

// The tensors that every source has, as the declarations of the operators name them.
struct AttentionTensors {
    DType indexType;
    const void* value;
    const void* spatialShapes;
    const void* levelStartIndex;
    const void* positions;
    const void* weights;
    void* output;
};

// Whether sizes are legal, and every tensor with elements is there; how many elements the output has, in `outputs`.
inline bool isAttention(const AttentionTensors& tensors, const MultiscaleDeformableAttentionShape& shape,
                        int64_t& outputs) {
    int64_t values = 0;
    int64_t weights = 0;
    int64_t positions = 0;
    return elementCount({shape.batch, shape.keys, shape.heads, shape.channels}, values) &&
           elementCount({shape.batch, shape.queries, shape.heads, shape.levels, shape.points}, weights) &&
           elementCount({shape.batch, shape.queries, shape.heads, shape.levels, shape.points, 2}, positions) &&
           elementCount({shape.batch, shape.queries, shape.heads, shape.channels}, outputs) &&
           (tensors.indexType == DType::kInt32 || tensors.indexType == DType::kInt64) &&
           (values == 0 || tensors.value != nullptr) &&
           (shape.levels == 0 || (tensors.spatialShapes != nullptr && tensors.levelStartIndex != nullptr)) &&
           (weights == 0 || (tensors.positions != nullptr && tensors.weights != nullptr)) &&
           (outputs == 0 || tensors.output != nullptr);
}

// The arguments that both kernels have.
template <typename A>
A attentionArguments(const AttentionTensors& tensors, const typename A::Extra& extra) {
    using T = typename A::T;
    A arguments{};
    static_cast<typename A::Extra&>(arguments) = extra;
    arguments.value = static_cast<const T*>(tensors.value);
    arguments.spatialShapes = tensors.spatialShapes;
    arguments.levelStartIndex = tensors.levelStartIndex;
    arguments.positions = static_cast<const T*>(tensors.positions);
    arguments.weights = static_cast<const T*>(tensors.weights);
    arguments.output = static_cast<T*>(tensors.output);
    arguments.wideIndices = tensors.indexType == DType::kInt64;
    return arguments;
}

// For what isAttention accepts, with an output that has elements.
template <typename Source>
cudaError_t attend(const AttentionTensors& tensors, const typename Source::Arguments& extra,
                   const MultiscaleDeformableAttentionShape& shape, cudaStream_t stream) {
    auto team = attentionArguments<TeamArguments<Source>>(tensors, extra);
    if (teamFits(team, shape)) {
        team.keys = shape.keys;
        team.batch = static_cast<int32_t>(shape.batch);
        team.queries = static_cast<int32_t>(shape.queries);
        team.heads = static_cast<int32_t>(shape.heads);
        team.points = static_cast<int32_t>(shape.points);
        team.count = static_cast<int32_t>(shape.levels * shape.points);
        return launchTeams(team, shape, stream);
    }
    auto arguments = attentionArguments<AttentionArguments<Source>>(tensors, extra);
    arguments.shape = shape;
    return chooseVector(arguments, stream);
}

}  // namespace trtsmith
