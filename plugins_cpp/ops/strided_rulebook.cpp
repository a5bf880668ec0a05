// The rulebook of a sparse convolution with strides: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sparse/strided_rulebook.cuh"

#include <limits>
#include <numeric>

#include "ops/binding.hpp"
#include "ops/rulebook.hpp"

namespace trtsmith {

struct StridedRulebook {
    static constexpr const char* kName = "StridedRulebook";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t batch_size;
        GridSizes spatial_shape;
        GridSizes kernel_size;
        GridSizes stride;
        GridSizes padding;
        GridSizes dilation;
        int32_t limit;
    };
    static constexpr std::array<Field<Params>, 7> kFields{
        field<&Params::batch_size>("batch_size", atLeast(1)),
        field<&Params::spatial_shape>("spatial_shape", atLeast(1)),
        field<&Params::kernel_size>("kernel_size", atLeast(1)),
        field<&Params::stride>("stride", atLeast(1)),
        field<&Params::padding>("padding", atLeast(0)),
        field<&Params::dilation>("dilation", atLeast(1)),
        field<&Params::limit>("limit", atLeast(0)),
    };
    static constexpr Signature<1, 3> kSignature{
        {{{"indices", TypeVar::kS, 2}}},
        {{{"output_indices", TypeVar::kS, 2}, {"pairs", TypeVar::kS, 2}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params& p, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        const int64_t cells = productUpTo(kMaxCells, p.batch_size, outputGrid(p));
        const int64_t fewer = p.limit > 0 && p.limit < cells ? p.limit : cells;
        const D most = smaller(in[0][0] * reached(p), fewer);
        sizes[0] = {floorDiv(most + 1, 2), most};
    }

    template <typename D>
    static void shape(const Params& p, const Shape<D>*, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(sizes[0], constantLike(sizes[0], 4));
        out[1] = Shape<D>::of(constantLike(sizes[0], rulebookTaps(p.kernel_size)), sizes[0]);
        out[2] = Shape<D>{};
    }

    static std::string check(const Params& p, const Tensors& t) {
        if (productUpTo(kMaxCells, p.batch_size, outputGrid(p)) > kMaxCells) {
            return "the output has more than 2^34 cells";
        }
        return rulebookFault(t.in[0], p.batch_size, p.spatial_shape);
    }

    static size_t workspace(const Params& p, const Tensors& t) { return stridedRulebookWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const StridedRulebookParams params{
            .indices = static_cast<const int32_t*>(t.in[0].data),
            .outputIndices = static_cast<int32_t*>(t.output(0)),
            .pairs = static_cast<int32_t*>(t.output(1)),
            .count = static_cast<int32_t*>(t.output(2)),
        };
        return stridedRulebook(params, kernelShape(p, t), workspace, stream);
    }

private:
    static constexpr int64_t kMaxCells = int64_t{1} << 34;

    static std::array<int64_t, 3> outputGrid(const Params& p) {
        std::array<int64_t, 3> cells{};
        for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t extent = p.dilation[axis] * (int64_t{p.kernel_size[axis]} - 1) + 1;
            const int64_t steps =
                floorDiv(p.spatial_shape[axis] + 2 * int64_t{p.padding[axis]} - extent, p.stride[axis]);
            cells[axis] = steps < 0 ? 0 : steps + 1;
        }
        return cells;
    }

    // How many cells of the output one of the input reaches at most: along an axis, taps whose distance from each other is a
    // multiple of the stride.
    static int64_t reached(const Params& p) {
        int64_t most = 1;
        rulebookTaps(p.kernel_size);  // refuses what would overflow
        for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t apart = p.stride[axis] / std::gcd(p.stride[axis], p.dilation[axis]);
            most *= (p.kernel_size[axis] + apart - 1) / apart;
        }
        return most;
    }

    static StridedRulebookShape kernelShape(const Params& p, const Tensors& t) {
        return {
            .rows = t.in[0][0],
            .batch = p.batch_size,
            .grid = wide(p.spatial_shape),
            .out = outputGrid(p),
            .kernel = wide(p.kernel_size),
            .stride = wide(p.stride),
            .padding = wide(p.padding),
            .dilation = wide(p.dilation),
            .limit = p.limit > 0 ? p.limit : std::numeric_limits<int32_t>::max(),
        };
    }
};

TRTSMITH_BIND(StridedRulebook)

}  // namespace trtsmith
