// Deformable sampling in groups of channels, DCNv3 and DCNv4: a launch of the kernel in kernels/.
#include "definitions/grouped_deformable_sampling.hpp"

#include "kernels/sampling/grouped_deformable_sampling.cuh"
#include "ops/binding.hpp"

namespace trtsmith {

struct GroupedDeformableSampling : GroupedDeformableSamplingDefinition {
    static cudaError_t run(const Params& params, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& x = t.in[kX];
        const GroupedDeformableSamplingParams arguments{
            .type = x.type,
            .x = x.data,
            .offset = t.in[kOffset].data,
            .mask = t.has(kMask) ? t.in[kMask].data : nullptr,
            .output = t.output(0),
        };
        const GroupedDeformableSamplingShape sizes{
            .batch = x[0],
            .height = x[1],
            .width = x[2],
            .channels = x[3],
            .outHeight = t.out[0][1],
            .outWidth = t.out[0][2],
            .offsetChannels = t.in[kOffset][3],
            .kernelHeight = params.kernel_shape[0],
            .kernelWidth = params.kernel_shape[1],
            .strideHeight = params.stride[0],
            .strideWidth = params.stride[1],
            .paddingTop = params.padding[0],
            .paddingLeft = params.padding[1],
            .dilationHeight = params.dilation[0],
            .dilationWidth = params.dilation[1],
            .groups = params.groups,
            .offsetScale = params.offset_scale,
            .removeCenter = params.remove_center != 0,
            .maskApart = t.has(kMask),
        };
        return groupedDeformableSampling(arguments, sizes, stream);
    }
};

TRTSMITH_BIND(GroupedDeformableSampling)

}  // namespace trtsmith
