// Sampling of volumes at points: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/sampling/volume_sampling.cuh"

#include <limits>
#include <string>

#include "ops/binding.hpp"

namespace trtsmith {

struct VolumeSampling {
    static constexpr const char* kName = "VolumeSampling";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t interpolation;
        int32_t padding;
        int32_t align_corners;
    };
    static constexpr std::array<Field<Params>, 3> kFields{
        field<&Params::interpolation>("interpolation", kZeroOrOne),
        field<&Params::padding>("padding", Range{0, 2}),
        field<&Params::align_corners>("align_corners", kZeroOrOne),
    };

    enum Input : size_t { kX, kGrid };
    static constexpr Signature<2, 1> kSignature{
        {{{"x", TypeVar::kT, 5}, {"grid", TypeVar::kT, 5}}},
        {{{"output", TypeVar::kT, 5}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        const Shape<D>& grid = in[kGrid];
        out[0] = Shape<D>::of(in[kX][0], in[kX][1], grid[1], grid[2], grid[3]);
    }

    static std::string check(const Params&, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& grid = t.in[kGrid];
        if (grid[0] != x[0]) {
            return "x and grid differ in batch";
        }
        if (grid[4] != 3) {
            return "grid has " + std::to_string(grid[4]) + " numbers for each point; expected 3";
        }
        for (int32_t axis = 2; axis < 5; ++axis) {
            if (x[axis] < 1 || x[axis] > std::numeric_limits<int32_t>::max()) {
                return "x must have sides of 1 to 2^31 - 1 voxels";
            }
        }
        return {};
    }

    static size_t workspace(const Params& p, const Tensors& t) {
        return volumeSamplingWorkspace(t.in[kX].type, kernelShape(p, t));
    }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const VolumeSamplingParams params{
            .type = t.in[kX].type,
            .x = t.in[kX].data,
            .grid = t.in[kGrid].data,
            .output = t.output(0),
        };
        return volumeSampling(params, kernelShape(p, t), workspace, stream);
    }

private:
    static VolumeSamplingShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& x = t.in[kX];
        const Tensor& grid = t.in[kGrid];
        return {
            .batch = x[0],
            .channels = x[1],
            .depth = x[2],
            .height = x[3],
            .width = x[4],
            .points = grid[1] * grid[2] * grid[3],
            .nearest = p.interpolation == 1,
            .padding = static_cast<VolumePadding>(p.padding),
            .aligned = p.align_corners == 1,
        };
    }
};

TRTSMITH_BIND(VolumeSampling)

}  // namespace trtsmith
