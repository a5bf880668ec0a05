// Rows of consecutive segments reduced: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/reduction/segment_reduction.cuh"

#include <limits>

#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct SegmentReduction {
    static constexpr const char* kName = "SegmentReduction";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t reduction;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::reduction>("reduction", kReductions)};

    enum Input : size_t { kSource, kOffsets };
    static constexpr Signature<2, 1> kSignature{
        {{{"source", TypeVar::kT, kAnyRank}, {"offsets", TypeVar::kI, 1}}},
        {{{"output", TypeVar::kT, kAnyRank}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[kSource];
        out[0][0] = in[kOffsets][0] - 1;
    }

    static std::string check(const Params&, const Tensors& t) {
        if (t.in[kSource].shape.rank < 1) {
            return "source has no dimensions";
        }
        if (t.in[kOffsets][0] < 1) {
            return "offsets has no element; expected one more than there are segments";
        }
        return t.in[kSource][0] > std::numeric_limits<int32_t>::max() ? "there must be less than 2^31 rows" : "";
    }

    static size_t workspace(const Params&, const Tensors& t) { return segmentReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const Tensor& source = t.in[kSource];
        const SegmentReductionParams params{
            .type = source.type,
            .offsetType = t.in[kOffsets].type,
            .reduction = static_cast<Reduction>(p.reduction),
            .source = source.data,
            .offsets = t.in[kOffsets].data,
            .output = t.output(0),
        };
        return segmentReduction(params, kernelShape(t), workspace, stream);
    }

private:
    static SegmentReductionShape kernelShape(const Tensors& t) {
        const Tensor& source = t.in[kSource];
        return {source[0], columnsOf(source.shape), t.in[kOffsets][0] - 1};
    }
};

TRTSMITH_BIND(SegmentReduction)

}  // namespace trtsmith
