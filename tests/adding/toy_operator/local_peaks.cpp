// Peaks of a signal: a launch of the kernel in kernels/.
#include "definitions/local_peaks.hpp"

#include "kernels/local_peaks.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct LocalPeaks : LocalPeaksDefinition {
    static size_t workspace(const Params&, const Tensors& t) { return localPeaksWorkspace(t.in[kX][0]); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const LocalPeaksParams params{
            .type = t.in[kX].type,
            .plateaus = p.plateaus != 0,
            .x = t.in[kX].data,
            .least = t.has(kLeast) ? t.in[kLeast].data : nullptr,
            .positions = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return localPeaks(params, t.in[kX][0], workspace, stream);
    }
};

TRTSMITH_BIND(LocalPeaks)

}  // namespace trtsmith
