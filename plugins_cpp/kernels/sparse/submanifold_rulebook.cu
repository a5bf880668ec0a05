#include "kernels/sparse/submanifold_rulebook.cuh"

#include "kernels/dispatch.cuh"
#include "kernels/sparse/cells.cuh"

namespace trtsmith {
namespace {

using sparse::Cell;
using sparse::Cells;
using sparse::Grid;
using sparse::Three;

constexpr int32_t kThreads = 256;
constexpr int32_t kNone = -1;
// Neighbours along x have neighbouring slots, as many as a sector of 32 bytes holds: taps along x mostly read one.
constexpr int kRunBits = 3;

// A hash table of rows with open addressing: a slot has the first row of a cell, or kNone. What cell that is, the row says.
struct Table {
    int32_t* slots;
    int64_t mask;  // number of slots, a power of two, minus 1
    int shift;     // 64 - bits of the number of a run
};

struct Arguments {
    Cells cells;
    Grid grid;
    Table table;
    int32_t* pairs;
    Three kernel;
    Three dilation;
    int64_t tiles;  // of kThreads rows
};

// The number of a line of cells along x, to which the runs of its cells are added.
__device__ inline int64_t lineOf(const Grid& grid, int64_t image, int64_t z, int64_t y) {
    const int64_t runs = (grid.width >> kRunBits) + 1;
    return ((image * grid.depth + z) * grid.height + y) * runs;
}

__device__ inline int64_t firstSlot(const Table& table, int64_t line, int64_t x) {
    uint64_t key = static_cast<uint64_t>(line + (x >> kRunBits));
    key ^= key >> 32;
    key *= 0x9E3779B97F4A7C15ULL;
    key ^= key >> 29;
    key *= 0xBF58476D1CE4E5B9ULL;
    return static_cast<int64_t>(key >> table.shift) << kRunBits | (x & ((1 << kRunBits) - 1));
}

__global__ void __launch_bounds__(kThreads) insertKernel(const __grid_constant__ Arguments a) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x; row < a.cells.rows; row += step) {
        const Cell cell = cellOf(a.cells, row);
        if (!inside(a.grid, cell)) {
            continue;
        }
        int64_t slot = firstSlot(a.table, lineOf(a.grid, cell.image, cell.z, cell.y), cell.x);
        while (true) {
            const int32_t other = atomicCAS(a.table.slots + slot, kNone, static_cast<int32_t>(row));
            if (other == kNone) {
                break;
            }
            if (same(cellOf(a.cells, other), cell)) {
                atomicMin(a.table.slots + slot, static_cast<int32_t>(row));
                break;
            }
            slot = (slot + 1) & a.table.mask;
        }
    }
}

// A thread has one row and the taps of one line along x of the kernel.
__global__ void __launch_bounds__(kThreads) findKernel(const __grid_constant__ Arguments a) {
    const int64_t lines = a.kernel.z * a.kernel.y;
    for (int64_t piece = blockIdx.x; piece < a.tiles * lines; piece += gridDim.x) {
        const int64_t tile = piece / lines;
        const int64_t line = piece - tile * lines;
        const int64_t row = tile * kThreads + threadIdx.x;
        if (row >= a.cells.rows) {
            continue;
        }
        const int64_t tapZ = line / a.kernel.y;
        const int64_t tapY = line - tapZ * a.kernel.y;
        const Cell own = cellOf(a.cells, row);
        Cell wanted = own;
        wanted.z += (tapZ - a.kernel.z / 2) * a.dilation.z;
        wanted.y += (tapY - a.kernel.y / 2) * a.dilation.y;
        const bool there = inside(a.grid, own) && wanted.z >= 0 && wanted.z < a.grid.depth && wanted.y >= 0 &&
                           wanted.y < a.grid.height;
        const int64_t number = there ? lineOf(a.grid, wanted.image, wanted.z, wanted.y) : 0;
        int32_t* target = a.pairs + line * a.kernel.x * a.cells.rows + row;
#pragma unroll 3
        for (int64_t tap = 0; tap < a.kernel.x; ++tap, target += a.cells.rows) {
            wanted.x = own.x + (tap - a.kernel.x / 2) * a.dilation.x;
            int32_t found = kNone;
            if (there && wanted.x >= 0 && wanted.x < a.grid.width) {
                int64_t slot = firstSlot(a.table, number, wanted.x);
                found = __ldg(a.table.slots + slot);
                while (found != kNone && !same(cellOf(a.cells, found), wanted)) {
                    slot = (slot + 1) & a.table.mask;
                    found = __ldg(a.table.slots + slot);
                }
            }
            *target = found;
        }
    }
}

// A run of slots at least, and at most a half of the slots taken; a quarter where that costs little memory.
int tableBits(int64_t rows) {
    constexpr int64_t kFewRows = int64_t{1} << 20;
    const int64_t slots = rows <= kFewRows ? 4 * rows : 2 * rows;
    int bits = kRunBits + 1;
    while ((int64_t{1} << bits) < slots) {
        ++bits;
    }
    return bits;
}

bool isValid(const SubmanifoldRulebookShape& s, int64_t& pairs) {
    int64_t taps = 0;
    int64_t cells = s.batch;
    if (s.rows < 0 || s.rows > std::numeric_limits<int32_t>::max() || s.batch < 1 ||
        !elementCount({s.kernel[0], s.kernel[1], s.kernel[2]}, taps) || taps < 1 || taps > sparse::kMaxTaps ||
        !elementCount({taps, s.rows}, pairs)) {
        return false;
    }
    for (size_t axis = 0; axis < 3; ++axis) {
        constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
        if (s.kernel[axis] % 2 == 0 || s.dilation[axis] < 1 || s.dilation[axis] > kMaxInt || s.grid[axis] < 1 ||
            cells > sparse::kMaxInputCells / s.grid[axis]) {
            return false;
        }
        cells *= s.grid[axis];
    }
    return true;
}

}  // namespace

size_t submanifoldRulebookWorkspace(const SubmanifoldRulebookShape& shape) {
    int64_t pairs = 0;
    return isValid(shape, pairs) ? sizeof(int32_t) << tableBits(shape.rows) : 0;
}

cudaError_t submanifoldRulebook(const SubmanifoldRulebookParams& params, const SubmanifoldRulebookShape& shape,
                                void* workspace, cudaStream_t stream) {
    int64_t pairs = 0;
    if (!isValid(shape, pairs)) {
        return cudaErrorInvalidValue;
    }
    if (pairs == 0) {
        return cudaSuccess;
    }
    if (params.indices == nullptr || params.pairs == nullptr || workspace == nullptr) {
        return cudaErrorInvalidValue;
    }
    const int bits = tableBits(shape.rows);
    const Arguments a{
        .cells = {params.indices, shape.rows, isAligned(params.indices, sizeof(int4))},
        .grid = {shape.batch, shape.grid[0], shape.grid[1], shape.grid[2]},
        .table = {static_cast<int32_t*>(workspace), (int64_t{1} << bits) - 1, 64 - (bits - kRunBits)},
        .pairs = params.pairs,
        .kernel = {shape.kernel[0], shape.kernel[1], shape.kernel[2]},
        .dilation = {shape.dilation[0], shape.dilation[1], shape.dilation[2]},
        .tiles = ceilDivide(shape.rows, kThreads),
    };
    cudaError_t status = cudaMemsetAsync(workspace, 0xff, sizeof(int32_t) << bits, stream);
    if (status == cudaSuccess) {
        status = launch(insertKernel, gridBlocks(a.tiles), kThreads, 0, stream, a);
    }
    if (status == cudaSuccess) {
        const int64_t lines = shape.kernel[0] * shape.kernel[1];
        status = launch(findKernel, gridBlocks(a.tiles * lines), kThreads, 0, stream, a);
    }
    return status;
}

}  // namespace trtsmith
