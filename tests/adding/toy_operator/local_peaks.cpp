// Peaks of a signal: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/local_peaks.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct LocalPeaks {
    static constexpr const char* kName = "LocalPeaks";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t plateaus;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::plateaus>("plateaus", kZeroOrOne)};
    static constexpr Signature<2, 2> kSignature{
        {{{"x", TypeVar::kT, 1}, {"least", TypeVar::kT, 1, true}}},
        {{{"positions", TypeVar::kN, 1}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params& p, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const D half = floorDiv(in[0][0] + 1, 2);
        sizes[0] = {half, p.plateaus != 0 ? in[0][0] : half};
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>*, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(sizes[0]);
        out[1] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors& t) {
        return t.has(1) && t.in[1][0] != 1 ? "least must have one element" : "";
    }

    static size_t workspace(const Params&, const Tensors& t) { return localPeaksWorkspace(t.in[0][0]); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const LocalPeaksParams params{
            .type = t.in[0].type,
            .plateaus = p.plateaus != 0,
            .x = t.in[0].data,
            .least = t.has(1) ? t.in[1].data : nullptr,
            .positions = static_cast<int64_t*>(t.output(0)),
            .count = static_cast<int32_t*>(t.output(1)),
        };
        return localPeaks(params, t.in[0][0], workspace, stream);
    }
};

TRTSMITH_BIND(LocalPeaks)

}  // namespace trtsmith
