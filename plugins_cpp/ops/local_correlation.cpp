// Correlation of patches of two maps: a launch of the kernel in kernels/.
#include "definitions/local_correlation.hpp"

#include "kernels/sampling/local_correlation.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct LocalCorrelation : LocalCorrelationDefinition {
    static size_t workspace(const Params& p, const Tensors& t) {
        return localCorrelationWorkspace(t.in[kFirst].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const LocalCorrelationParams params{
            .type = t.in[kFirst].type,
            .first = t.in[kFirst].data,
            .second = t.in[kSecond].data,
            .output = t.output(0),
        };
        return localCorrelation(params, kernelShape(p, t), workspace, stream);
    }

private:
    static LocalCorrelationShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& first = t.in[kFirst];
        return {
            .batch = first[0],
            .channels = first[1],
            .height = first[2],
            .width = first[3],
            .outHeight = t.out[0][3],
            .outWidth = t.out[0][4],
            .radius = p.max_displacement,
            .kernelHeight = p.kernel_size[0],
            .kernelWidth = p.kernel_size[1],
            .strideHeight = p.stride[0],
            .strideWidth = p.stride[1],
            .paddingTop = p.padding[0],
            .paddingLeft = p.padding[1],
            .dilationHeight = p.dilation[0],
            .dilationWidth = p.dilation[1],
            .stepHeight = p.dilation_patch[0],
            .stepWidth = p.dilation_patch[1],
        };
    }
};

TRTSMITH_BIND(LocalCorrelation)

}  // namespace trtsmith
