// The nearest points: a launch of the kernel in kernels/.
#include "definitions/nearest_neighbours.hpp"

#include "kernels/points/neighbour_search.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct NearestNeighbours : NearestNeighboursDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& points = t.in[kPoints];
        const Tensor& queries = t.in[kQueries];
        const NearestNeighboursParams params{points.type, points.data, queries.data, t.output(0),
                                             static_cast<int32_t*>(t.output(1))};
        return nearestNeighbours(params, {points[0], points[1], queries[1], points[2], p.neighbours}, stream);
    }
};

TRTSMITH_BIND(NearestNeighbours)

}  // namespace trtsmith
