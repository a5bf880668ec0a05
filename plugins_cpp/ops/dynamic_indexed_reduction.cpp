// Rows reduced to one for each index, as many as there are: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/reduction/indexed_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct DynamicIndexedReduction {
    static constexpr const char* kName = "DynamicIndexedReduction";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t reduction;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::reduction>("reduction", kReductions)};

    static constexpr Signature<2, 3> kSignature{
        {{{"source", TypeVar::kT, kAnyRank}, {"index", TypeVar::kI, 1}}},
        {{{"output", TypeVar::kT, kAnyRank},
          {"origin", TypeVar::kN, kAnyRank},
          {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params&, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        sizes[0] = {floorDiv(in[0][0] + 1, 2), in[0][0]};
    }

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = in[0];
        out[0][0] = sizes[0];
        out[1] = originShape(p.reduction, in[0], sizes[0]);
        out[2] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors& t) { return scatterFault(t); }

    static size_t workspace(const Params&, const Tensors& t) { return indexedReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        auto* const count = static_cast<int32_t*>(t.output(2));
        return indexedReduction(scatterParams(p.reduction, t, count), kernelShape(t), workspace, stream);
    }

private:
    static IndexedReductionShape kernelShape(const Tensors& t) {
        return {t.in[0][0], columnsOf(t.in[0].shape), t.in[0][0]};
    }
};

TRTSMITH_BIND(DynamicIndexedReduction)

}  // namespace trtsmith
