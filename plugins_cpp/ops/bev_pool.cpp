// Features of cameras summed into a grid seen from above: ports, shapes and sizes; the arithmetic is in kernels/.
#include "kernels/bev/bev_pool.cuh"

#include <limits>
#include <utility>

#include "ops/binding.hpp"

namespace trtsmith {

struct BevPool {
    static constexpr const char* kName = "BevPool";
    static constexpr const char* kVersion = "1";

    struct Params {
        int32_t output_height;
        int32_t output_width;
        int32_t output_planes;
    };
    static constexpr std::array<Field<Params>, 3> kFields{
        field<&Params::output_height>("output_height", atLeast(1)),
        field<&Params::output_width>("output_width", atLeast(1)),
        field<&Params::output_planes>("output_planes", atLeast(1)),
    };

    enum Input : size_t { kDepth, kFeat, kRanksDepth, kRanksFeat, kRanksBev, kIntervalStarts, kIntervalLengths };
    static constexpr Signature<7, 1> kSignature{
        {{{"depth", TypeVar::kT, 4},
          {"feat", TypeVar::kT, 4},
          {"ranks_depth", TypeVar::kS, 1},
          {"ranks_feat", TypeVar::kS, 1},
          {"ranks_bev", TypeVar::kS, 1},
          {"interval_starts", TypeVar::kS, 1},
          {"interval_lengths", TypeVar::kS, 1}}},
        {{{"output", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params& p, const Shape<D>* in, int32_t, Shape<D>* out) {
        const D& channels = in[kFeat][3];
        out[0] = Shape<D>::of(constantLike(channels, p.output_planes), constantLike(channels, p.output_height),
                              constantLike(channels, p.output_width), channels);
    }

    static std::string check(const Params& p, const Tensors& t) {
        constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
        for (const auto& [d, f] : {std::pair{0, 0}, {2, 1}, {3, 2}}) {
            if (t.in[kDepth][d] != t.in[kFeat][f]) {
                return "depth and feat differ in cameras, height or width";
            }
        }
        const int64_t points = t.in[kRanksDepth][0];
        if (t.in[kRanksFeat][0] != points || t.in[kRanksBev][0] != points) {
            return "ranks_depth, ranks_feat and ranks_bev differ in length";
        }
        if (t.in[kIntervalStarts][0] != t.in[kIntervalLengths][0]) {
            return "interval_starts and interval_lengths differ in length";
        }
        if (t.in[kIntervalStarts][0] > kMost) {
            return "there must be less than 2^31 intervals";
        }
        const bool fits = p.output_planes <= kMost / p.output_height / p.output_width;
        return fits ? "" : "the output must have less than 2^31 cells";
    }

    static size_t workspace(const Params& p, const Tensors& t) { return bevPoolWorkspace(kernelShape(p, t)); }

    static cudaError_t run(const Params& p, const Tensors& t, void* workspace, cudaStream_t stream) {
        const auto ranks = [&t](Input input) { return static_cast<const int32_t*>(t.in[input].data); };
        const BevPoolParams params{
            .type = t.in[kFeat].type,
            .depth = t.in[kDepth].data,
            .features = t.in[kFeat].data,
            .depthRanks = ranks(kRanksDepth),
            .featureRanks = ranks(kRanksFeat),
            .cellRanks = ranks(kRanksBev),
            .intervalStarts = ranks(kIntervalStarts),
            .intervalLengths = ranks(kIntervalLengths),
            .output = t.output(0),
        };
        return bevPool(params, kernelShape(p, t), workspace, stream);
    }

private:
    static BevPoolShape kernelShape(const Params& p, const Tensors& t) {
        const Shape<int64_t>& feat = t.in[kFeat].shape;
        return {product(t.in[kDepth].shape),
                feat[0] * feat[1] * feat[2],
                feat[3],
                t.in[kRanksDepth][0],
                t.in[kIntervalStarts][0],
                int64_t{p.output_planes} * p.output_height * p.output_width};
    }
};

TRTSMITH_BIND(BevPool)

}  // namespace trtsmith
