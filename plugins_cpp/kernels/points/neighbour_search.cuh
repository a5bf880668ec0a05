// Neighbours of points: the first within a radius, or the nearest. Declaration only: needs neither nvcc nor TensorRT.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dtype.hpp"

namespace trtsmith {

// Device pointers, row-major, aligned to their element size. T is `type`. A tensor without elements may be null.
struct NeighbourSearchShape {
    int64_t batch;
    int64_t points;      // of each cloud
    int64_t queries;     // of each cloud
    int64_t width;       // coordinates of a point; of a ball 3
    int64_t neighbours;  // of a query
};

struct BallNeighboursParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    const void* points;   // T [batch, points, 3]
    const void* queries;  // T [batch, queries, 3]
    int32_t* counts;      // [batch, queries]: how many were found, at most `neighbours`
    int32_t* indices;     // [batch, queries, neighbours]
    float minimum;        // a point nearer than this is taken only at distance 0
    float radius;
};

// The first points, in their order, that are nearer than the radius. Spare places repeat the first one, and are 0 without one.
//
// cudaErrorInvalidValue: a size below 0 or too large, a width other than 3, a null pointer to a tensor that has elements.
cudaError_t ballNeighbours(const BallNeighboursParams& params, const NeighbourSearchShape& shape, cudaStream_t stream);

struct NearestNeighboursParams {
    DType type;           // kFloat32, kFloat16 or kBFloat16
    const void* points;   // T [batch, points, width]
    const void* queries;  // T [batch, queries, width]
    void* distances;      // T [batch, queries, neighbours]
    int32_t* indices;     // [batch, queries, neighbours]
};

// The nearest points, in order; of equally near ones the lowest index first. A point whose squared distance is no finite
// float32 is nobody's neighbour. Spare places have the index 0 and an infinite distance.
//
// cudaErrorInvalidValue: a size below 0 or too large, a null pointer to a tensor that has elements.
cudaError_t nearestNeighbours(const NearestNeighboursParams& params, const NeighbourSearchShape& shape,
                              cudaStream_t stream);

}  // namespace trtsmith
