// The largest of samples along each border of boxes: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/regions/border_align.cuh"

#include "ops/binding.hpp"
#include "ops/regions.hpp"

namespace trtsmith {

struct BorderAlign {
    static constexpr const char* kName = "BorderAlign";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t pool_size;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::pool_size>("pool_size", atLeast(1))};

    enum Input : size_t { kMap, kBoxes };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"boxes", TypeVar::kT, 3}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& batch = in[kMap][0];
        out[0] =
            Shape<D>::of(batch, floorDiv(in[kMap][1], constantLike(batch, 4)), in[kBoxes][1], constantLike(batch, 4));
    }

    static std::string check(const Params& p, const Tensors& t) {
        constexpr int32_t kMostSteps = 1024;
        if (p.pool_size > kMostSteps) {
            return "pool_size is " + std::to_string(p.pool_size) + "; expected at most " + std::to_string(kMostSteps);
        }
        const Tensor& map = t.in[kMap];
        if (map[1] % 4 != 0) {
            return "x has " + std::to_string(map[1]) + " channels; expected a multiple of 4";
        }
        if (t.in[kBoxes][0] != map[0]) {
            return "x and boxes differ in images";
        }
        if (t.in[kBoxes][2] != 4) {
            return "boxes has " + std::to_string(t.in[kBoxes][2]) + " numbers for each box; expected 4";
        }
        return mapFault(map);
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return borderAlignWorkspace(kernelParams(p, t), kernelShape(t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        return borderAlign(kernelParams(p, t), kernelShape(t), workspace, stream);
    }

private:
    static BorderAlignParams kernelParams(const Params& p, const Tensors& t) {
        return {t.in[kMap].type, t.in[kMap].data, t.in[kBoxes].data, t.output(0), p.pool_size};
    }

    static BorderAlignShape kernelShape(const Tensors& t) {
        const Tensor& map = t.in[kMap];
        return {map[0], map[1] / 4, map[2], map[3], t.in[kBoxes][1]};
    }
};

TRTSMITH_BIND(BorderAlign)

}  // namespace trtsmith
