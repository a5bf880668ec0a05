#include "kernels/bev/pillar_scatter.cuh"

#include "kernels/convert.cuh"
#include "kernels/dispatch.cuh"

namespace trtsmith {
namespace {

constexpr int32_t kThreads = 256;
// Channels of a block: it reads the owners of its cells once for all of them, and neighbouring threads write neighbouring
// cells. Most cells have no pillar, so that writing zeros is most of the work.
constexpr int32_t kChannels = 16;

struct Arguments {
    PillarScatterParams params;
    PillarScatterShape shape;
    int32_t* owners;  // [frames, cells], the last pillar of each cell, or -1
    int64_t cells;    // of a frame
    int64_t tiles;    // of a frame's cells, kThreads * kVector each
    int64_t pieces;   // frames * slices of channels * tiles
};

__global__ void __launch_bounds__(kThreads) ownersKernel(const __grid_constant__ Arguments a) {
    const PillarScatterShape& s = a.shape;
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < s.frames * s.pillars; i += step) {
        const int64_t frame = i / s.pillars;
        const int64_t pillar = i - frame * s.pillars;
        if (pillar >= a.params.counts[frame]) {
            continue;
        }
        const int64_t row = a.params.positions[4 * i + 2];
        const int64_t column = a.params.positions[4 * i + 3];
        if (row >= 0 && row < s.height && column >= 0 && column < s.width) {
            atomicMax(a.owners + frame * a.cells + row * s.width + column, static_cast<int32_t>(pillar));
        }
    }
}

// A thread has kVector cells side by side, and writes them of one channel after the other. Word: what holds one element.
template <typename Word, int kVector>
__global__ void __launch_bounds__(kThreads) scatterKernel(const __grid_constant__ Arguments a) {
    using Words = typename WordOf<kVector* static_cast<int>(sizeof(Word))>::type;
    const Word* const features = static_cast<const Word*>(a.params.features);
    Word* const output = static_cast<Word*>(a.params.output);
    const int64_t channels = a.shape.channels;
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        const int64_t rest = piece / a.tiles;
        const int64_t tile = piece - rest * a.tiles;
        const int64_t slices = (channels + kChannels - 1) / kChannels;
        const int64_t frame = rest / slices;
        const int64_t first = (rest - frame * slices) * kChannels;
        const int64_t cell = (tile * kThreads + threadIdx.x) * kVector;
        if (cell >= a.cells) {
            continue;
        }
        int64_t rows[kVector];
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            const int32_t owner = a.owners[frame * a.cells + cell + v];
            rows[v] = owner < 0 ? -1 : (frame * a.shape.pillars + owner) * channels;
        }
        const int64_t end = first + kChannels < channels ? first + kChannels : channels;
        Word* target = output + (frame * channels + first) * a.cells + cell;
#pragma unroll 4
        for (int64_t channel = first; channel < end; ++channel, target += a.cells) {
            Word elements[kVector];
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                elements[v] = rows[v] < 0 ? Word{0} : __ldg(features + rows[v] + channel);
            }
            Words words;
            memcpy(&words, elements, sizeof words);
            *reinterpret_cast<Words*>(target) = words;
        }
    }
}

template <typename Word, int kVector>
cudaError_t scatter(Arguments& a, cudaStream_t stream) {
    a.tiles = ceilDivide(a.cells, int64_t{kThreads} * kVector);
    a.pieces = a.shape.frames * ceilDivide(a.shape.channels, kChannels) * a.tiles;
    return launch(scatterKernel<Word, kVector>, gridBlocks(a.pieces), kThreads, 0, stream, a);
}

template <typename Word>
cudaError_t scatterElements(Arguments& a, cudaStream_t stream) {
    const bool wide = a.cells % 4 == 0 && isAligned(a.params.output, 4 * sizeof(Word));
    return wide ? scatter<Word, 4>(a, stream) : scatter<Word, 1>(a, stream);
}

bool isValid(const PillarScatterParams& p, const PillarScatterShape& s, int64_t& outputs) {
    int64_t features = 0;
    int64_t positions = 0;
    int64_t cells = 0;
    if (s.pillars > std::numeric_limits<int32_t>::max() || !elementCount({s.frames, s.pillars, s.channels}, features) ||
        !elementCount({s.frames, s.pillars, 4}, positions) || !elementCount({s.frames, s.height, s.width, 4}, cells) ||
        !elementCount({s.frames, s.channels, s.height, s.width}, outputs)) {
        return false;
    }
    const bool hasFeatures = features == 0 || p.features != nullptr;
    const bool hasPositions = positions == 0 || (p.positions != nullptr && p.counts != nullptr);
    return outputs == 0 || (hasFeatures && hasPositions && p.output != nullptr);
}

}  // namespace

size_t pillarScatterWorkspace(const PillarScatterShape& shape) {
    int64_t bytes = 0;
    const bool fits = elementCount({shape.frames, shape.height, shape.width, int64_t{sizeof(int32_t)}}, bytes);
    return fits ? static_cast<size_t>(bytes) : 0;
}

cudaError_t pillarScatter(const PillarScatterParams& params, const PillarScatterShape& shape, void* workspace,
                          cudaStream_t stream) {
    int64_t outputs = 0;
    if (!isValid(params, shape, outputs) || (outputs > 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    Arguments a{params, shape, static_cast<int32_t*>(workspace), shape.height * shape.width, 0, 0};
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using Word = typename WordOf<static_cast<int>(sizeof(typename decltype(tag)::type))>::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        cudaError_t status = cudaMemsetAsync(workspace, 0xff, pillarScatterWorkspace(shape), stream);
        const int64_t pillars = shape.frames * shape.pillars;
        if (status == cudaSuccess && pillars > 0) {
            status = launch(ownersKernel, gridBlocks(ceilDivide(pillars, kThreads)), kThreads, 0, stream, a);
        }
        return status == cudaSuccess ? scatterElements<Word>(a, stream) : status;
    });
}

}  // namespace trtsmith
