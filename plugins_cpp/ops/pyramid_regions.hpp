// RoI align on several levels of features, of plain and of rotated boxes: one kernel, two operators that differ in their
// regions and in one field.
#pragma once

#include "ops/regions.hpp"

namespace trtsmith {

template <typename Definition, bool Rotated>
struct PyramidRegionOp : Definition {
    using typename Definition::Params;

    static size_t workspace(const Params& params, const Tensors& t) {
        return regionAlignWorkspace(kernelParams(params, t),
                                    regionShape(params, t.in[Definition::kX0], t.in[Definition::kRois]));
    }

    static cudaError_t run(const Params& params, const Tensors& t, void* workspace, cudaStream_t stream) {
        return regionAlign(kernelParams(params, t), regionShape(params, t.in[Definition::kX0], t.in[Definition::kRois]),
                           workspace, stream);
    }

private:
    // mmdeploy's kernels: growth of plain boxes counts the last pixel, and no aligned one has a negative size; rotated ones
    // are at least a pixel, aligned or not.
    static RegionAlignParams kernelParams(const Params& params, const Tensors& t) {
        RegionAlignParams p = regionParams(params, t.in[Definition::kRois], t.output(0));
        for (size_t i = Definition::kX0; i < static_cast<size_t>(t.nbInputs); ++i) {
            addLevel(p, t.in[i], 1.0F / params.strides[i - Definition::kX0]);
        }
        p.pixelOffset = params.aligned != 0 ? 0.5F : 0.0F;
        p.leastSize = !Rotated && params.aligned != 0 ? 0.0F : 1.0F;
        p.growth = params.roi_scale_factor;
        p.finestScale = static_cast<float>(params.finest_scale);
        if constexpr (Rotated) {
            p.boxes = RegionBoxes::kRotated;
            p.angleScale = angleScale(params.clockwise != 0, false);
        } else {
            p.pooling = static_cast<RegionPooling>(params.pooling);
            p.growthCountsEnds = true;
        }
        return p;
    }
};

}  // namespace trtsmith
