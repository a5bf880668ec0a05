// Rows reduced into rows of data by index: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/reduction/indexed_reduction.cuh"
#include "ops/binding.hpp"
#include "ops/rows.hpp"

namespace trtsmith {

struct IndexedAccumulation {
    static constexpr const char* kName = "IndexedAccumulation";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t reduction;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::reduction>("reduction", kReductions)};

    enum Input : size_t { kData, kIndex, kSource };
    static constexpr Signature<3, 1> kSignature{
        {{{"data", TypeVar::kT, kAnyRank}, {"index", TypeVar::kI, 1}, {"source", TypeVar::kT, kAnyRank}}},
        {{{"output", TypeVar::kT, kAnyRank}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[kData];
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& data = t.in[kData];
        const Tensor& source = t.in[kSource];
        if (data.shape.rank < 1) {
            return "data has no dimensions";
        }
        if (source.shape.rank != data.shape.rank) {
            return "data and source differ in rank";
        }
        for (int32_t axis = 1; axis < data.shape.rank; ++axis) {
            if (source[axis] != data[axis]) {
                return "rows of data and of source differ in size";
            }
        }
        if (source[0] != t.in[kIndex][0]) {
            return "source and index differ in rows";
        }
        return source[0] > INT32_MAX || data[0] > INT32_MAX ? "there must be less than 2^31 rows" : "";
    }

    static size_t workspace(const Params&, const Tensors& t) { return indexedReductionWorkspace(kernelShape(t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const IndexedReductionParams params{
            .type = t.in[kData].type,
            .indexType = t.in[kIndex].type,
            .reduction = static_cast<Reduction>(p.reduction),
            .source = t.in[kSource].data,
            .index = t.in[kIndex].data,
            .output = t.output(0),
            .origin = nullptr,
            .count = nullptr,
            .data = t.in[kData].data,
        };
        return indexedReduction(params, kernelShape(t), workspace, stream);
    }

private:
    static IndexedReductionShape kernelShape(const Tensors& t) {
        return {t.in[kSource][0], columnsOf(t.in[kData].shape), t.in[kData][0]};
    }
};

TRTSMITH_BIND(IndexedAccumulation)

}  // namespace trtsmith
