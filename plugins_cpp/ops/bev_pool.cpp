// Features of cameras summed into a grid seen from above: a launch of the kernel in kernels/.
#include "definitions/bev_pool.hpp"

#include "kernels/bev/bev_pool.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct BevPool : BevPoolDefinition {
    static size_t workspace(const Params& p, const Tensors& t) { return bevPoolWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const auto ranks = [&t](Input input) { return static_cast<const int32_t*>(t.in[input].data); };
        const BevPoolParams params{
            .type = t.in[kFeat].type,
            .depth = t.in[kDepth].data,
            .features = t.in[kFeat].data,
            .depthRanks = ranks(kRanksDepth),
            .featureRanks = ranks(kRanksFeat),
            .cellRanks = ranks(kRanksBev),
            .intervalStarts = ranks(kIntervalStarts),
            .intervalLengths = ranks(kIntervalLengths),
            .output = t.output(0),
        };
        return bevPool(params, kernelShape(p, t), workspace, stream);
    }

private:
    static BevPoolShape kernelShape(const Params& p, const Tensors& t) {
        const Shape<int64_t>& feat = t.in[kFeat].shape;
        return {product(t.in[kDepth].shape),
                feat[0] * feat[1] * feat[2],
                feat[3],
                t.in[kRanksDepth][0],
                t.in[kIntervalStarts][0],
                int64_t{p.output_planes} * p.output_height * p.output_width};
    }
};

TRTSMITH_BIND(BevPool)

}  // namespace trtsmith
