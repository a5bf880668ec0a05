#include "multiscale_deformable_attention.cuh"

#include "convert.cuh"
#include "dispatch.cuh"
#include "multiscale_deformable_attention_cell.cuh"
#include "multiscale_deformable_attention_team.cuh"

namespace trtsmith {
namespace {

// The kernel for what teamKernel cannot take: any number of channels, samples or queries, unaligned tensors, values too
// large for 32-bit word indices. A thread owns `vectorBytes` of the channels of one head, and every thread works out every
// sample.
// Deformable-DETR's encoder, batch 1, on an H200: 117 us (fp16) and 179 us (fp32).
struct Tuning {
    int threads;
    int vectorBytes;
};

constexpr Tuning tuningFor(size_t elementSize) { return elementSize == 2 ? Tuning{128, 16} : Tuning{256, 16}; }

template <typename T>
struct Arguments {
    const T* value;
    const void* spatialShapes;
    const void* levelStartIndex;
    const T* samplingLocations;
    const T* attentionWeights;
    T* output;
    MultiscaleDeformableAttentionShape shape;
    int64_t vectors;  // per head: channels / kVector
    int64_t items;    // batch * queries * heads * vectors
    bool wideIndices;
};

template <typename T, int kVector>
__global__ void __launch_bounds__(tuningFor(sizeof(T)).threads) attentionKernel(const Arguments<T> a) {
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
        const T* weights = a.attentionWeights + site * a.shape.levels * points;
        const T* locations = a.samplingLocations + site * a.shape.levels * points * 2;

        float sums[kVector];
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
            sums[i] = 0.0F;
        }

        for (int64_t level = 0; level < a.shape.levels; ++level) {
            const int32_t height = levelSide(loadIndex(a.spatialShapes, level * 2, a.wideIndices));
            const int32_t width = levelSide(loadIndex(a.spatialShapes, level * 2 + 1, a.wideIndices));
            const uint64_t start = static_cast<uint64_t>(loadIndex(a.levelStartIndex, level, a.wideIndices));

#pragma unroll 2
            for (int64_t point = 0; point < points; ++point) {
                const BilinearCell cell = locationCell(loadFloat(locations), loadFloat(locations + 1), height, width);
                const float weight = loadFloat(weights);
                locations += 2;
                weights += 1;

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

template <typename T, int kVector>
cudaError_t launchAttention(Arguments<T> arguments, cudaStream_t stream) {
    constexpr int kThreads = tuningFor(sizeof(T)).threads;
    arguments.vectors = arguments.shape.channels / kVector;
    arguments.items = arguments.shape.batch * arguments.shape.queries * arguments.shape.heads * arguments.vectors;
    return launch(attentionKernel<T, kVector>, gridBlocks(ceilDivide(arguments.items, kThreads)), kThreads, 0, stream,
                  arguments);
}

// Every row of value and output is heads * channels long, so the channels and the two base addresses decide the width.
template <typename T>
bool fits(const Arguments<T>& arguments, int vector) {
    const size_t bytes = static_cast<size_t>(vector) * sizeof(T);
    return arguments.shape.channels % vector == 0 && isAligned(arguments.value, bytes) &&
           isAligned(arguments.output, bytes);
}

template <typename T>
cudaError_t chooseVector(const Arguments<T>& arguments, cudaStream_t stream) {
    constexpr int kWide = tuningFor(sizeof(T)).vectorBytes / static_cast<int>(sizeof(T));
    constexpr int kNarrow = 4 / static_cast<int>(sizeof(T));
    if (fits(arguments, kWide)) {
        return launchAttention<T, kWide>(arguments, stream);
    }
    if (kNarrow > 1 && fits(arguments, kNarrow)) {
        return launchAttention<T, kNarrow>(arguments, stream);
    }
    return launchAttention<T, 1>(arguments, stream);
}

}  // namespace

cudaError_t multiscaleDeformableAttention(const MultiscaleDeformableAttentionParams& params,
                                          const MultiscaleDeformableAttentionShape& shape, cudaStream_t stream) {
    int64_t values = 0;
    int64_t weights = 0;
    int64_t locations = 0;
    int64_t outputs = 0;
    if (!elementCount({shape.batch, shape.keys, shape.heads, shape.channels}, values) ||
        !elementCount({shape.batch, shape.queries, shape.heads, shape.levels, shape.points}, weights) ||
        !elementCount({shape.batch, shape.queries, shape.heads, shape.levels, shape.points, 2}, locations) ||
        !elementCount({shape.batch, shape.queries, shape.heads, shape.channels}, outputs)) {
        return cudaErrorInvalidValue;
    }
    if (params.indexType != DType::kInt32 && params.indexType != DType::kInt64) {
        return cudaErrorInvalidValue;
    }
    const bool missing = (values > 0 && params.value == nullptr) ||
                         (shape.levels > 0 && (params.spatialShapes == nullptr || params.levelStartIndex == nullptr)) ||
                         (weights > 0 && (params.samplingLocations == nullptr || params.attentionWeights == nullptr)) ||
                         (outputs > 0 && params.output == nullptr);
    if (missing) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        TeamArguments<T> team{};
        team.value = static_cast<const T*>(params.value);
        team.spatialShapes = params.spatialShapes;
        team.levelStartIndex = params.levelStartIndex;
        team.samplingLocations = static_cast<const T*>(params.samplingLocations);
        team.attentionWeights = static_cast<const T*>(params.attentionWeights);
        team.output = static_cast<T*>(params.output);
        team.wideIndices = params.indexType == DType::kInt64;
        if (teamFits(team, shape)) {
            team.keys = shape.keys;
            team.batch = static_cast<int32_t>(shape.batch);
            team.queries = static_cast<int32_t>(shape.queries);
            team.heads = static_cast<int32_t>(shape.heads);
            team.points = static_cast<int32_t>(shape.points);
            team.count = static_cast<int32_t>(shape.levels * shape.points);
            return launchTeams(team, shape, stream);
        }
        Arguments<T> arguments{};
        arguments.value = static_cast<const T*>(params.value);
        arguments.spatialShapes = params.spatialShapes;
        arguments.levelStartIndex = params.levelStartIndex;
        arguments.samplingLocations = static_cast<const T*>(params.samplingLocations);
        arguments.attentionWeights = static_cast<const T*>(params.attentionWeights);
        arguments.output = static_cast<T*>(params.output);
        arguments.shape = shape;
        arguments.wideIndices = params.indexType == DType::kInt64;
        return chooseVector(arguments, stream);
    });
}

}  // namespace trtsmith
