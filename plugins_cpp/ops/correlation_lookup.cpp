// Windows of correlation volumes: a launch of the kernel in kernels/.
#include "definitions/correlation_lookup.hpp"

#include "kernels/sampling/correlation_lookup.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct CorrelationLookup : CorrelationLookupDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& volume = t.in[kVolume];
        const Tensor& places = t.in[kPlaces];
        const bool flat = volume.shape.rank == 4;
        const CorrelationLookupParams params{
            .type = volume.type,
            .volume = volume.data,
            .places = static_cast<const float*>(places.data),
            .output = t.output(0),
        };
        const CorrelationLookupShape shape{
            .batch = volume[0],
            .height = volume[1],
            .width = volume[2],
            .rows = flat ? 1 : volume[3],
            .columns = flat ? volume[3] : volume[4],
            .axes = places[1],
            .radius = p.radius,
            .flat = flat,
        };
        return correlationLookup(params, shape, stream);
    }
};

TRTSMITH_BIND(CorrelationLookup)

}  // namespace trtsmith
