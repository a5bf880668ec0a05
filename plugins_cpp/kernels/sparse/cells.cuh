// Cells of a grid [batch, depth, height, width] on the device: what the rulebooks share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace trtsmith {
namespace sparse {

constexpr int64_t kMaxTaps = int64_t{1} << 15;
constexpr int64_t kMaxInputCells = int64_t{1} << 62;  // so that int64 numbers them

struct Cell {
    int64_t image;
    int64_t z;
    int64_t y;
    int64_t x;
};

// Rows of coordinates; `vector` where each row can be read at once.
struct Cells {
    const int32_t* indices;  // [rows, 4]
    int64_t rows;
    bool vector;
};

__device__ inline Cell cellOf(const Cells& cells, int64_t row) {
    if (cells.vector) {
        const int4 at = __ldg(reinterpret_cast<const int4*>(cells.indices) + row);
        return {at.x, at.y, at.z, at.w};
    }
    const int32_t* const at = cells.indices + 4 * row;
    return {__ldg(at), __ldg(at + 1), __ldg(at + 2), __ldg(at + 3)};
}

__device__ inline bool same(const Cell& a, const Cell& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.image == b.image;
}

// Sizes of a grid.
struct Grid {
    int64_t images;
    int64_t depth;
    int64_t height;
    int64_t width;
};

__device__ inline bool inside(const Grid& grid, const Cell& at) {
    return at.image >= 0 && at.image < grid.images && at.z >= 0 && at.z < grid.depth && at.y >= 0 &&
           at.y < grid.height && at.x >= 0 && at.x < grid.width;
}

struct Three {
    int64_t z;
    int64_t y;
    int64_t x;
};

}  // namespace sparse
}  // namespace trtsmith
