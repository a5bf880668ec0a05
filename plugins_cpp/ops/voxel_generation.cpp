// Points of LiDAR frames sorted into voxels: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/bev/voxel_generation.cuh"

#include <limits>

#include "ops/binding.hpp"

namespace trtsmith {

struct VoxelGeneration {
    static constexpr const char* kName = "VoxelGeneration";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t max_points;
        int32_t max_voxels;
        int32_t features;
        std::array<float, 6> point_cloud_range;
        std::array<float, 3> voxel_size;
        int32_t pillars;
    };
    static constexpr std::array<Field<Params>, 6> kFields{
        field<&Params::max_points>("max_points", atLeast(1)),
        field<&Params::max_voxels>("max_voxels", atLeast(1)),
        field<&Params::features>("features", atLeast(1)),
        field<&Params::point_cloud_range>("point_cloud_range"),
        field<&Params::voxel_size>("voxel_size"),
        field<&Params::pillars>("pillars", kZeroOrOne),
    };

    enum Input : size_t { kPoints, kNumPoints };
    static constexpr Signature<2, 4> kSignature{
        {{{"points", TypeVar::kT, 3}, {"num_points", TypeVar::kS, 1}}},
        {{{"voxels", TypeVar::kT, 4},
          {"coords", TypeVar::kS, 3},
          {"point_counts", TypeVar::kS, 2},
          {"num_voxels", TypeVar::kS, 1}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& frames = in[kPoints][0];
        const D voxels = constantLike(frames, p.max_voxels);
        out[0] = Shape<D>::of(frames, voxels, constantLike(frames, p.max_points), constantLike(frames, p.features));
        out[1] = Shape<D>::of(frames, voxels, constantLike(frames, 4));
        out[2] = Shape<D>::of(frames, voxels);
        out[3] = Shape<D>::of(frames);
    }

    static std::string check(const Params& p, const Tensors& t) {
        const Tensor& points = t.in[kPoints];
        float grid[3];
        if (!voxelGrid(kernelShape(p, t), grid)) {
            return "point_cloud_range and voxel_size must make a grid of 1 to 2^31 - 1 cells";
        }
        if (t.in[kNumPoints][0] != points[0]) {
            return "points and num_points differ in frames";
        }
        if (points[2] < 3) {
            return "points have " + std::to_string(points[2]) + " numbers; expected x, y and z at least";
        }
        if (p.features > points[2] + 6) {
            return "features = " + std::to_string(p.features) + ", but a point of " + std::to_string(points[2]) +
                   " numbers has " + std::to_string(points[2] + 6);
        }
        if (int64_t{p.max_points} * p.features > std::numeric_limits<int32_t>::max()) {
            return "a voxel must have less than 2^31 numbers";
        }
        const int64_t frames = points[0] > 0 ? points[0] : 1;
        return points[1] > (int64_t{1} << 30) / frames ? "there must be at most 2^30 points" : "";
    }

    static size_t workspace(const Params& p, const Tensors& t) { return voxelGenerationWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const VoxelGenerationParams params{
            .type = t.in[kPoints].type,
            .points = t.in[kPoints].data,
            .counts = static_cast<const int32_t*>(t.in[kNumPoints].data),
            .voxels = t.output(0),
            .coords = static_cast<int32_t*>(t.output(1)),
            .pointCounts = static_cast<int32_t*>(t.output(2)),
            .voxelCounts = static_cast<int32_t*>(t.output(3)),
        };
        return voxelGeneration(params, kernelShape(p, t), workspace, stream);
    }

private:
    static VoxelGenerationShape kernelShape(const Params& p, const Tensors& t) {
        const Tensor& points = t.in[kPoints];
        VoxelGenerationShape shape{points[0],  points[1], points[2], p.max_voxels, p.max_points,
                                   p.features, {},        {},        {},           p.pillars != 0};
        for (size_t axis = 0; axis < 3; ++axis) {
            shape.low[axis] = p.point_cloud_range[axis];
            shape.high[axis] = p.point_cloud_range[axis + 3];
            shape.size[axis] = p.voxel_size[axis];
        }
        return shape;
    }
};

TRTSMITH_BIND(VoxelGeneration)

}  // namespace trtsmith
