// Features of cameras, weighted with depths and summed into the cells of a grid seen from above, forward. Declaration
// only: needs neither nvcc nor TensorRT.
//
// Points come with the positions of their depth and of their row of features; an interval is a run of points, whose sum
// goes to the cell of its first point. Formula: "BEVPoolv2" (Huang and Huang, 2022), with the layouts of BEVDet's
// mmdet3d/ops/bev_pool_v2.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null. The
// output must not overlap an input.
struct BevPoolParams {
    DType type;                      // kFloat32, kFloat16 or kBFloat16; sums are fp32 for all three
    const void* depth;               // T [depths]
    const void* features;            // T [rows, channels]
    const int32_t* depthRanks;       // [points], which of `depth`
    const int32_t* featureRanks;     // [points], which row of `features`
    const int32_t* cellRanks;        // [points], which cell; only those of the intervals' first points are read
    const int32_t* intervalStarts;   // [intervals], first points
    const int32_t* intervalLengths;  // [intervals], numbers of points
    void* output;                    // T [cells, channels]
};

struct BevPoolShape {
    int64_t depths;
    int64_t rows;
    int64_t channels;
    int64_t points;
    int64_t intervals;  // less than 2^31
    int64_t cells;      // less than 2^31
};

// Bytes of workspace: a number for each cell.
size_t bevPoolWorkspace(const BevPoolShape& shape);

// Every cell is written: one without an interval is zero, and of several intervals of a cell the last counts, as where
// the source's kernel writes them in order. A point whose depth or row does not exist, or that lies behind the last one,
// counts as nothing; so does an interval without points, or whose first point or cell does not exist. Deterministic.
//
// cudaErrorInvalidValue: a size below 0, too many intervals or cells, a null pointer to a tensor that has elements, or no
// workspace.
cudaError_t bevPool(const BevPoolParams& params, const BevPoolShape& shape, void* workspace, cudaStream_t stream);

}  // namespace trtsmith
