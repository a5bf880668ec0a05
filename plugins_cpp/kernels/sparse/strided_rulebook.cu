#include "kernels/sparse/strided_rulebook.cuh"

#include <algorithm>

#include "kernels/enumerate.cuh"
#include "kernels/sparse/strided_rulebook_reach.cuh"

namespace trtsmith {
namespace {

using strided::Arguments;
using strided::kThreads;
using strided::kTileWords;
using strided::kWordBits;
using strided::kWordsEach;
using strided::visitReached;
using strided::Word;

constexpr int64_t kMaxOutputCells = int64_t{1} << 34;

__global__ void __launch_bounds__(kThreads) markKernel(const __grid_constant__ Arguments a) {
    visitReached(a, [&a](int64_t, int64_t, int64_t cell) {
        atomicOr(a.bits + cell / kWordBits, Word{1} << (cell % kWordBits));
    });
}

__device__ inline void loadWords(const Arguments& a, int64_t first, Word (&words)[kWordsEach]) {
#pragma unroll
    for (int i = 0; i < kWordsEach; ++i) {
        words[i] = first + i < a.words ? a.bits[first + i] : 0;
    }
}

__global__ void __launch_bounds__(kThreads) countKernel(const __grid_constant__ Arguments a) {
    __shared__ int64_t sums[kThreads / 32];
    for (int64_t tile = blockIdx.x; tile < a.wordTiles; tile += gridDim.x) {
        Word words[kWordsEach];
        loadWords(a, tile * kTileWords + threadIdx.x * kWordsEach, words);
        int64_t count = 0;
#pragma unroll
        for (int i = 0; i < kWordsEach; ++i) {
            count += __popcll(words[i]);
        }
        int64_t all = 0;
        enumerate_detail::exclusiveSum<kThreads>(count, sums, all);
        if (threadIdx.x == 0) {
            a.tileCounts[tile] = all;
        }
    }
}

__device__ inline void writeCell(const Arguments& a, int64_t row, int64_t number) {
    const int64_t line = number / a.out.width;
    const int64_t plane = line / a.out.height;
    const int64_t image = plane / a.out.depth;
    int32_t* const target = a.params.outputIndices + 4 * row;
    target[0] = static_cast<int32_t>(image);
    target[1] = static_cast<int32_t>(plane - image * a.out.depth);
    target[2] = static_cast<int32_t>(line - plane * a.out.height);
    target[3] = static_cast<int32_t>(number - line * a.out.width);
}

// Writes the cells, the bits before each word, and the table of pairs without any.
__global__ void __launch_bounds__(kThreads) placeKernel(const __grid_constant__ Arguments a) {
    __shared__ int64_t sums[kThreads / 32];
    const int64_t total = *a.total;
    const int64_t count = total < a.limit ? total : a.limit;
    const int64_t step = int64_t{gridDim.x} * kThreads;
    const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (thread == 0) {
        *a.params.count = static_cast<int32_t>(count);
    }
    for (int64_t i = thread; i < a.taps * count; i += step) {
        a.params.pairs[i] = -1;
    }
    for (int64_t tile = blockIdx.x; tile < a.wordTiles; tile += gridDim.x) {
        const int64_t first = tile * kTileWords + threadIdx.x * kWordsEach;
        Word words[kWordsEach];
        loadWords(a, first, words);
        int64_t own = 0;
#pragma unroll
        for (int i = 0; i < kWordsEach; ++i) {
            own += __popcll(words[i]);
        }
        int64_t all = 0;
        int64_t row = a.tileCounts[tile] + enumerate_detail::exclusiveSum<kThreads>(own, sums, all);
#pragma unroll
        for (int i = 0; i < kWordsEach; ++i) {
            if (first + i < a.words) {
                a.before[first + i] = static_cast<int32_t>(row < a.limit ? row : a.limit);
            }
            for (Word left = words[i]; left != 0 && row < a.limit; left &= left - 1, ++row) {
                writeCell(a, row, (first + i) * kWordBits + __ffsll(static_cast<long long>(left)) - 1);
            }
        }
    }
}

// -1 is the largest of the numbers without sign, so that the least of several rows stays.
__global__ void __launch_bounds__(kThreads) pairKernel(const __grid_constant__ Arguments a) {
    const int64_t count = *a.params.count;
    visitReached(a, [&a, count](int64_t row, int64_t tap, int64_t cell) {
        const Word below = a.bits[cell / kWordBits] & ((Word{1} << (cell % kWordBits)) - 1);
        const int64_t column = a.before[cell / kWordBits] + __popcll(below);
        if (column < count) {
            atomicMin(reinterpret_cast<uint32_t*>(a.params.pairs) + tap * count + column, static_cast<uint32_t>(row));
        }
    });
}

bool isValid(const StridedRulebookShape& s, int64_t& cells) {
    constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
    int64_t taps = 0;
    int64_t pairs = 0;
    int64_t inputs = s.batch;
    if (s.rows < 0 || s.rows > kMaxInt || s.batch < 1 || s.limit < 1 || s.limit > kMaxInt ||
        !elementCount({s.kernel[0], s.kernel[1], s.kernel[2]}, taps) || taps < 1 || taps > sparse::kMaxTaps ||
        !elementCount({taps, s.rows}, pairs) || !elementCount({s.batch, s.out[0], s.out[1], s.out[2]}, cells) ||
        cells > kMaxOutputCells) {
        return false;
    }
    for (size_t axis = 0; axis < 3; ++axis) {
        if (s.stride[axis] < 1 || s.stride[axis] > kMaxInt || s.dilation[axis] < 1 || s.dilation[axis] > kMaxInt ||
            s.padding[axis] < 0 || s.padding[axis] > kMaxInt || s.grid[axis] < 1 ||
            inputs > sparse::kMaxInputCells / s.grid[axis]) {
            return false;
        }
        inputs *= s.grid[axis];
    }
    return true;
}

struct Sizes {
    int64_t words;
    int64_t tiles;

    explicit Sizes(int64_t cells) : words(ceilDivide(cells, kWordBits)), tiles(ceilDivide(words, kTileWords)) {}
    size_t bytes() const {
        return static_cast<size_t>(words) * (sizeof(Word) + sizeof(int32_t)) +
               static_cast<size_t>(tiles + 1) * sizeof(int64_t);
    }
};

}  // namespace

size_t stridedRulebookWorkspace(const StridedRulebookShape& shape) {
    int64_t cells = 0;
    return isValid(shape, cells) && cells > 0 ? Sizes(cells).bytes() : 0;
}

cudaError_t stridedRulebook(const StridedRulebookParams& params, const StridedRulebookShape& shape, void* workspace,
                            cudaStream_t stream) {
    int64_t cells = 0;
    if (!isValid(shape, cells) || params.count == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (shape.rows == 0 || cells == 0) {
        return cudaMemsetAsync(params.count, 0, sizeof(int32_t), stream);
    }
    if (params.indices == nullptr || params.outputIndices == nullptr || params.pairs == nullptr ||
        workspace == nullptr) {
        return cudaErrorInvalidValue;
    }
    const Sizes sizes(cells);
    Arguments a{};
    a.cells = {params.indices, shape.rows, isAligned(params.indices, sizeof(int4))};
    a.grid = {shape.batch, shape.grid[0], shape.grid[1], shape.grid[2]};
    a.out = {shape.batch, shape.out[0], shape.out[1], shape.out[2]};
    a.kernel = {shape.kernel[0], shape.kernel[1], shape.kernel[2]};
    a.stride = {shape.stride[0], shape.stride[1], shape.stride[2]};
    a.padding = {shape.padding[0], shape.padding[1], shape.padding[2]};
    a.dilation = {shape.dilation[0], shape.dilation[1], shape.dilation[2]};
    a.params = params;
    a.limit = shape.limit;
    a.taps = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
    a.rowTiles = ceilDivide(shape.rows, kThreads);
    a.words = sizes.words;
    a.wordTiles = sizes.tiles;
    a.bits = static_cast<Word*>(workspace);
    a.tileCounts = reinterpret_cast<int64_t*>(a.bits + a.words);
    a.total = a.tileCounts + a.wordTiles;
    a.before = reinterpret_cast<int32_t*>(a.total + 1);

    const unsigned int rowBlocks = gridBlocks(a.rowTiles * shape.kernel[0] * shape.kernel[1]);
    const unsigned int wordBlocks = gridBlocks(a.wordTiles);
    cudaError_t status = cudaMemsetAsync(a.bits, 0, static_cast<size_t>(a.words) * sizeof(Word), stream);
    if (status == cudaSuccess) {
        status = launch(markKernel, rowBlocks, kThreads, 0, stream, a);
    }
    if (status == cudaSuccess) {
        status = launch(countKernel, wordBlocks, kThreads, 0, stream, a);
    }
    if (status == cudaSuccess) {
        status = sumBefore(a.tileCounts, a.wordTiles, a.total, stream);
    }
    if (status == cudaSuccess) {
        status = launch(placeKernel, std::max(wordBlocks, gridBlocks(a.rowTiles)), kThreads, 0, stream, a);
    }
    if (status == cudaSuccess) {
        status = launch(pairKernel, rowBlocks, kThreads, 0, stream, a);
    }
    return status;
}

}  // namespace trtsmith
