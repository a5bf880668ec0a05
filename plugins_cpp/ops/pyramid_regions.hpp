// RoI align on several levels of features, of plain and of rotated boxes: one kernel, two operators that differ in their
// regions and in one field.
#pragma once

#include "ops/regions.hpp"

namespace trtsmith {

struct PyramidRegionFields {
    int32_t output_height;
    int32_t output_width;
    int32_t sampling_ratio;
    int32_t aligned;
    int32_t finest_scale;
    float roi_scale_factor;
    std::array<float, kMaxRegionLevels> strides;  // 0 for levels that there are not
    int32_t choice;                               // pooling of plain boxes, direction of rotated ones
};

template <bool Rotated>
struct PyramidRegionOp {
    using Params = PyramidRegionFields;
    static constexpr std::array<Field<Params>, 8> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::sampling_ratio>("sampling_ratio"),
        field<&Params::aligned>("aligned", kZeroOrOne),
        field<&Params::finest_scale>("finest_scale", atLeast(1)),
        field<&Params::roi_scale_factor>("roi_scale_factor"),
        field<&Params::strides>("strides"),
        field<&Params::choice>(Rotated ? "clockwise" : "pooling", Rotated ? kZeroOrOne : Range{0, 2}),
    };

    static constexpr size_t kRois = 0;
    static constexpr size_t kFirstMap = 1;
    static constexpr Signature<1 + kMaxRegionLevels, 1> kSignature{
        {{
            {"rois", TypeVar::kT, 2},
            {"x0", TypeVar::kT, 4},
            {"x1", TypeVar::kT, 4, true},
            {"x2", TypeVar::kT, 4, true},
            {"x3", TypeVar::kT, 4, true},
            {"x4", TypeVar::kT, 4, true},
            {"x5", TypeVar::kT, 4, true},
            {"x6", TypeVar::kT, 4, true},
            {"x7", TypeVar::kT, 4, true},
        }},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& params, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& count = in[kRois][0];
        out[0] = Shape<D>::of(count, in[kFirstMap][1], constantLike(count, params.output_height),
                              constantLike(count, params.output_width));
    }

    static std::string check(const Params& params, const Tensors& t) {
        const std::string fault = regionFault(params, t.in[kRois], Rotated ? 6 : 5);
        if (!fault.empty()) {
            return fault;
        }
        const Tensor& first = t.in[kFirstMap];
        const auto levels = static_cast<size_t>(t.nbInputs) - kFirstMap;
        for (size_t i = 0; i < params.strides.size(); ++i) {
            if ((params.strides[i] > 0.0F) != (i < levels)) {
                return "strides must be positive for each of the " + std::to_string(levels) +
                       " levels, and 0 for the others";
            }
        }
        for (size_t i = kFirstMap; i < kFirstMap + levels; ++i) {
            const Tensor& map = t.in[i];
            if (map[0] != first[0] || map[1] != first[1]) {
                return "the levels disagree in batch or channels";
            }
            const std::string tooLarge = mapFault(map);
            if (!tooLarge.empty()) {
                return tooLarge;
            }
        }
        return {};
    }

    static size_t workspace(const Params& params, const Tensors& t) {
        return regionAlignWorkspace(kernelParams(params, t), regionShape(params, t.in[kFirstMap], t.in[kRois]));
    }

    static cudaError_t run(const Params& params, const Tensors& t, void* workspace, cudaStream_t stream) {
        return regionAlign(kernelParams(params, t), regionShape(params, t.in[kFirstMap], t.in[kRois]), workspace,
                           stream);
    }

private:
    // mmdeploy's kernels: growth of plain boxes counts the last pixel, and no aligned one has a negative size; rotated ones
    // are at least a pixel, aligned or not.
    static RegionAlignParams kernelParams(const Params& params, const Tensors& t) {
        RegionAlignParams p = regionParams(params, t.in[kRois], t.output(0));
        for (size_t i = kFirstMap; i < static_cast<size_t>(t.nbInputs); ++i) {
            addLevel(p, t.in[i], 1.0F / params.strides[i - kFirstMap]);
        }
        p.pixelOffset = params.aligned != 0 ? 0.5F : 0.0F;
        p.leastSize = !Rotated && params.aligned != 0 ? 0.0F : 1.0F;
        p.growth = params.roi_scale_factor;
        p.finestScale = static_cast<float>(params.finest_scale);
        if constexpr (Rotated) {
            p.boxes = RegionBoxes::kRotated;
            p.angleScale = angleScale(params.choice != 0, false);
        } else {
            p.pooling = static_cast<RegionPooling>(params.choice);
            p.growthCountsEnds = true;
        }
        return p;
    }
};

}  // namespace trtsmith
