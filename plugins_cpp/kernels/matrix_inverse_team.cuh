// A team of threads that inverts one matrix in memory: a thread's place in it, and the layout of its work.
#pragma once

#include <cstdint>

#include "matrix_inverse_arguments.cuh"

namespace trtsmith {
namespace matrix_inverse_detail {

constexpr int kWarp = 32;
constexpr int kSharedThreads = 256;
constexpr int kWorkspaceThreads = 1024;  // the largest team
constexpr int kTileRows = 3;  // rows of the residual to a thread: four do not fit in shared memory at kMaxShared

constexpr int64_t panelRows(int64_t teamThreads, int64_t columnLanes) { return teamThreads / columnLanes * kTileRows; }

// Words for one matrix: the parts of Work.
constexpr int64_t slabWords(int64_t size, int64_t stride, int64_t panelRows) {
    return size * stride + 2 * size + panelRows * size;
}

// A thread's place in the team, and where it starts and how far it steps in columns and rows of the team's matrix.
struct Place {
    int lane;
    int threads;
    int firstColumn;
    int columnStep;
    int firstRow;
    int rowStep;
};

// One matrix in memory. `inverse` is that of the input with its rows exchanged: row m was row origin[m] of the input,
// and column m of `inverse` is column origin[m] of the result.
struct Work {
    int32_t size;
    int64_t stride;   // words between rows of `inverse`
    float* inverse;   // size rows
    float* column;    // size words: the pivot column, then the 1-norms of the residual's rows
    int32_t* origin;  // size
    float* panel;     // some rows of the residual, of size words each
};

__device__ inline Place placeInTeam(const Arguments& a) {
    const int lane = static_cast<int>(threadIdx.x) % a.teamThreads;
    return {lane,          a.teamThreads,        lane & (a.columnLanes - 1),
            a.columnLanes, lane / a.columnLanes, a.teamThreads / a.columnLanes};
}

__device__ inline Work workIn(float* scratch, int32_t size, int64_t stride) {
    float* column = scratch + size * stride;
    return {size,
            stride,
            scratch,
            column,
            reinterpret_cast<int32_t*>(column + size),
            column + 2 * static_cast<int64_t>(size)};
}

}  // namespace matrix_inverse_detail
}  // namespace trtsmith
