// Bilinear sampling with zeros outside, as the deformable operators define it. Also compiles as host code.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

namespace trtsmith {

// The four neighbours of a sampling position: (row, column), (row, column + 1), (row + 1, column) and
// (row + 1, column + 1).
struct BilinearCell {
    int32_t row;
    int32_t column;
    float weights[4];
    uint32_t valid;  // bit i: neighbour i lies inside; only then may it be read
};

// Cell of the position (y, x), in pixels with centres at integers, on a height x width plane. A position at or beyond
// -1 or the far edge has no valid neighbour, nor has NaN: the comparisons are written so that it fails them. Every
// conversion to int therefore has an argument in [-1, 2^31).
__host__ __device__ inline BilinearCell bilinearCell(float y, float x, int32_t height, int32_t width) {
    BilinearCell cell{0, 0, {0.0F, 0.0F, 0.0F, 0.0F}, 0U};
    if (y > -1.0F && x > -1.0F && y < static_cast<float>(height) && x < static_cast<float>(width)) {
        const float floorY = floorf(y);
        const float floorX = floorf(x);
        const float lowerY = y - floorY;
        const float lowerX = x - floorX;
        const float upperY = 1.0F - lowerY;
        const float upperX = 1.0F - lowerX;
        cell.row = static_cast<int32_t>(floorY);
        cell.column = static_cast<int32_t>(floorX);
        cell.weights[0] = upperY * upperX;
        cell.weights[1] = upperY * lowerX;
        cell.weights[2] = lowerY * upperX;
        cell.weights[3] = lowerY * lowerX;
        // Above 2^24 the comparison in float may let a position pass that rounds to the edge: both ends are checked.
        const bool top = cell.row >= 0 && cell.row < height;
        const bool bottom = cell.row < height - 1;
        const bool left = cell.column >= 0 && cell.column < width;
        const bool right = cell.column < width - 1;
        cell.valid = (top && left ? 1U : 0U) | (top && right ? 2U : 0U) | (bottom && left ? 4U : 0U) |
                     (bottom && right ? 8U : 0U);
    }
    return cell;
}

// The same for the position (originY + dy, originX + dx), without the rounding of that sum in fp32: floor and fraction
// of an offset are exact. The origins must lie in [-2^30, 2^30].
__host__ __device__ inline BilinearCell bilinearCell(int32_t originY, float dy, int32_t originX, float dx,
                                                     int32_t height, int32_t width) {
    BilinearCell cell{0, 0, {0.0F, 0.0F, 0.0F, 0.0F}, 0U};
    constexpr float kFar = 1073741824.0F;
    if (fabsf(dy) < kFar && fabsf(dx) < kFar) {  // false for NaN
        const float floorY = floorf(dy);
        const float floorX = floorf(dx);
        const float lowerY = dy - floorY;
        const float lowerX = dx - floorX;
        const int32_t row = originY + static_cast<int32_t>(floorY);
        const int32_t column = originX + static_cast<int32_t>(floorX);
        const bool insideY = row >= 0 ? row < height : row == -1 && lowerY > 0.0F;
        const bool insideX = column >= 0 ? column < width : column == -1 && lowerX > 0.0F;
        if (insideY && insideX) {
            const float upperY = 1.0F - lowerY;
            const float upperX = 1.0F - lowerX;
            cell.row = row;
            cell.column = column;
            cell.weights[0] = upperY * upperX;
            cell.weights[1] = upperY * lowerX;
            cell.weights[2] = lowerY * upperX;
            cell.weights[3] = lowerY * lowerX;
            const bool top = row >= 0;
            const bool bottom = row < height - 1;
            const bool left = column >= 0;
            const bool right = column < width - 1;
            cell.valid = (top && left ? 1U : 0U) | (top && right ? 2U : 0U) | (bottom && left ? 4U : 0U) |
                         (bottom && right ? 8U : 0U);
        }
    }
    return cell;
}

}  // namespace trtsmith
