// The largest or smallest elements along an axis: ports and shapes; the arithmetic is in kernels/.
#include "kernels/selection/top_elements.cuh"

#include "ops/binding.hpp"
#include "ops/slice_axis.hpp"

namespace trtsmith {

struct TopElements {
    static constexpr const char* kName = "TopElements";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t count;
        int32_t axis;
        int32_t largest;
    };
    static constexpr std::array<Field<Params>, 3> kFields{field<&Params::count>("k", atLeast(0)),
                                                          field<&Params::axis>("axis"),
                                                          field<&Params::largest>("largest", kZeroOrOne)};
    static constexpr Signature<1, 2> kSignature{
        {{{"x", TypeVar::kE, kAnyRank}}},
        {{{"values", TypeVar::kE, kAnyRank}, {"indices", TypeVar::kN, kAnyRank}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const int32_t axis = axisOf(in[0], p.axis);
        out[0] = in[0];
        out[0][axis] = constantLike(in[0][axis], p.count);
        out[1] = out[0];
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Shape<int64_t>& x = t.in[0].shape;
        const std::string fault = axisFault(x, p.axis);
        if (!fault.empty()) {
            return fault;
        }
        const int64_t size = x[axisOf(x, p.axis)];
        return p.count <= size ? "" : std::to_string(p.count) + " elements of an axis of " + std::to_string(size);
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return topElementsWorkspace(t.in[0].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const TopElementsParams params{
            .type = t.in[0].type,
            .largest = p.largest != 0,
            .x = t.in[0].data,
            .values = t.output(0),
            .indices = static_cast<int64_t*>(t.output(1)),
        };
        return topElements(params, kernelShape(p, t), workspace, stream);
    }

private:
    static TopElementsShape kernelShape(const Params& p, const Tensors& t) {
        const GatherSlicesShape slices = slicesAlong(t.in[0].shape, p.axis);
        return {.outer = slices.outer, .size = slices.size, .inner = slices.inner, .count = p.count};
    }
};

TRTSMITH_BIND(TopElements)

}  // namespace trtsmith
