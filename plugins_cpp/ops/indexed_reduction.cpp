// Rows reduced to one for each index, of which there are so many: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/reduction/indexed_reduction.cuh"

#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct IndexedReduction {
    static constexpr const char* kName = "IndexedReduction";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t segments;
        int32_t reduction;
    };
    static constexpr std::array<Field<Params>, 2> kFields{field<&Params::segments>("segments", atLeast(1)),
                                                          field<&Params::reduction>("reduction", kReductions)};

    static constexpr Signature<2, 2> kSignature{
        {{{"source", TypeVar::kT, kAnyRank}, {"index", TypeVar::kI, 1}}},
        {{{"output", TypeVar::kT, kAnyRank}, {"origin", TypeVar::kN, kAnyRank}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D segments = constantLike(in[0][0], p.segments);
        out[0] = in[0];
        out[0][0] = segments;
        out[1] = originShape(p.reduction, in[0], segments);
    }

    static std::string check(const Params&, const Tensors& t) { return scatterFault(t); }

    static size_t workspace(const Params& p, const Tensors& t) {
        return indexedReductionWorkspace({t.in[0][0], columnsOf(t.in[0].shape), p.segments});
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const IndexedReductionShape shape{t.in[0][0], columnsOf(t.in[0].shape), p.segments};
        return indexedReduction(scatterParams(p.reduction, t, nullptr), shape, workspace, stream);
    }
};

TRTSMITH_BIND(IndexedReduction)

}  // namespace trtsmith
