// Samples of a map at each pixel's own rotated box: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/regions/rotated_feature_align.cuh"

#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct RotatedFeatureAlign {
    static constexpr const char* kName = "RotatedFeatureAlign";
    static constexpr const char* kVersion = "1";

    struct Params {
        float spatial_scale;
        int32_t points;
    };
    static constexpr std::array<Field<Params>, 2> kFields{field<&Params::spatial_scale>("spatial_scale"),
                                                          field<&Params::points>("points", atLeast(1))};

    enum Input : size_t { kMap, kBoxes };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"boxes", TypeVar::kT, 4}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[kMap];
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Tensor& map = t.in[kMap];
        const Tensor& boxes = t.in[kBoxes];
        if (p.points != 1 && p.points != 5) {
            return "points is " + std::to_string(p.points) + "; expected 1 or 5";
        }
        if (boxes[0] != map[0] || boxes[1] != map[2] || boxes[2] != map[3]) {
            return "boxes must have one box for each pixel of x";
        }
        if (boxes[3] != 5) {
            return "boxes has " + std::to_string(boxes[3]) + " numbers for each box; expected 5";
        }
        return mapFault(map);
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return rotatedFeatureAlignWorkspace(kernelParams(p, t), kernelShape(t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        return rotatedFeatureAlign(kernelParams(p, t), kernelShape(t), workspace, stream);
    }

private:
    static RotatedFeatureAlignParams kernelParams(const Params& p, const Tensors& t) {
        return {t.in[kMap].type, t.in[kMap].data, t.in[kBoxes].data, t.output(0), p.spatial_scale, p.points};
    }

    static RotatedFeatureAlignShape kernelShape(const Tensors& t) {
        const Tensor& map = t.in[kMap];
        return {map[0], map[1], map[2], map[3]};
    }
};

TRTSMITH_BIND(RotatedFeatureAlign)

}  // namespace trtsmith
