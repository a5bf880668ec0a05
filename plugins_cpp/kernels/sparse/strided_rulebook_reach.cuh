// The cells of a sparse convolution's output that rows reach, for the kernels of its rulebook.
#pragma once

#include "kernels/dispatch.cuh"
#include "kernels/sparse/cells.cuh"
#include "kernels/sparse/strided_rulebook.cuh"

namespace trtsmith {
namespace strided {

using sparse::Cell;
using sparse::Cells;
using sparse::Grid;
using sparse::Three;

constexpr int32_t kThreads = 256;
constexpr int kWordBits = 64;
constexpr int kWordsEach = 4;  // consecutive words of a thread
constexpr int64_t kTileWords = int64_t{kThreads} * kWordsEach;

using Word = unsigned long long;  // of atomicOr

struct Arguments {
    Cells cells;
    Grid grid;
    Grid out;
    Three kernel;
    Three stride;
    Three padding;
    Three dilation;
    StridedRulebookParams params;
    int64_t limit;
    int64_t taps;
    int64_t rowTiles;  // of kThreads rows
    int64_t words;
    int64_t wordTiles;    // of kTileWords words
    Word* bits;           // [words], a bit for each cell of the output
    int64_t* tileCounts;  // [wordTiles], bits, then those before each tile
    int64_t* total;       // of all bits
    int32_t* before;      // [words], bits before each word, at most the limit
};

// The cell of the output along an axis, or -1.
__device__ inline int64_t reached(int64_t at, int64_t tap, int64_t padding, int64_t dilation, int64_t stride,
                                  int64_t size) {
    const int64_t reach = at + padding - tap * dilation;
    if (reach < 0) {
        return -1;
    }
    const int64_t cell = reach / stride;
    return cell * stride == reach && cell < size ? cell : -1;
}

// Calls visit(row, tap, number of the cell of the output) for each that is reached. A thread has one row and the taps of one
// line along x of the kernel.
template <typename Visit>
__device__ inline void visitReached(const Arguments& a, const Visit& visit) {
    const int64_t lines = a.kernel.z * a.kernel.y;
    for (int64_t piece = blockIdx.x; piece < a.rowTiles * lines; piece += gridDim.x) {
        const int64_t tile = piece / lines;
        const int64_t line = piece - tile * lines;
        const int64_t row = tile * kThreads + threadIdx.x;
        if (row >= a.cells.rows) {
            continue;
        }
        const Cell at = cellOf(a.cells, row);
        const int64_t tapZ = line / a.kernel.y;
        const int64_t z = reached(at.z, tapZ, a.padding.z, a.dilation.z, a.stride.z, a.out.depth);
        const int64_t y = reached(at.y, line - tapZ * a.kernel.y, a.padding.y, a.dilation.y, a.stride.y, a.out.height);
        if (z < 0 || y < 0 || !inside(a.grid, at)) {
            continue;
        }
        const int64_t first = ((at.image * a.out.depth + z) * a.out.height + y) * a.out.width;
        for (int64_t tap = 0; tap < a.kernel.x; ++tap) {
            const int64_t x = reached(at.x, tap, a.padding.x, a.dilation.x, a.stride.x, a.out.width);
            if (x >= 0) {
                visit(row, line * a.kernel.x + tap, first + x);
            }
        }
    }
}

}  // namespace strided
}  // namespace trtsmith
