// The order in which elements ascend: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/reduction/ascending_order.cuh"

#include "ops/binding.hpp"

namespace trtsmith {

struct AscendingOrder {
    static constexpr const char* kName = "AscendingOrder";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};

    static constexpr Signature<1, 1> kSignature{
        {{{"x", TypeVar::kE, 1}}},
        {{{"order", TypeVar::kN, 1}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[0];
    }

    static std::string check(const Params&, const Tensors&) { return ""; }

    static size_t workspace(const Params&, const Tensors& t) { return ascendingOrderWorkspace(t.in[0][0]); }

    static cudaError_t run(const Params&, const Tensors& t, void* workspace, cudaStream_t stream) {
        const AscendingOrderParams params{t.in[0].type, t.in[0].data, static_cast<int64_t*>(t.output(0))};
        return ascendingOrder(params, t.in[0][0], workspace, stream);
    }
};

TRTSMITH_BIND(AscendingOrder)

}  // namespace trtsmith
