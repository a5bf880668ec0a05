// The bindings of tests/outside/mixing.py: plugins that TensorRT builds with, and that have no kernel to run.
#include "ops/binding.hpp"

namespace trtsmith {

struct ChannelMixing {
    static constexpr const char* kName = "ChannelMixing";
    static constexpr const char* kVersion = "1";

    struct Params {
        float gain;
    };
    static constexpr std::array<Field<Params>, 1> kFields{field<&Params::gain>("gain", atLeast(0.0F))};
    static constexpr Signature<3, 1> kSignature{
        {{{"x", TypeVar::kT, 4}, {"weight", TypeVar::kT, 4}, {"bias", TypeVar::kT, 1, true}}},
        {{{"y", TypeVar::kT, 4}}},
    };

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[0];
        out[0][1] = in[1][0];
    }

    static std::string check(const Params&, const Tensors& t) {
        return t.in[0].shape[1] == t.in[1].shape[1] ? "" : "x and weight must have the same channels";
    }

    static cudaError_t run(const Params&, const Tensors&, void*, cudaStream_t) { return cudaErrorNotSupported; }
};

TRTSMITH_BIND(ChannelMixing)

struct LogOdds {
    static constexpr const char* kName = "LogOdds";
    static constexpr const char* kVersion = "1";

    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};
    static constexpr Signature<1, 1> kSignature{{{{"p", TypeVar::kT, kAnyRank}}}, {{{"y", TypeVar::kT, kAnyRank}}}};

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, Shape<D>* out) {
        out[0] = in[0];
    }

    static std::string check(const Params&, const Tensors&) { return {}; }

    static cudaError_t run(const Params&, const Tensors&, void*, cudaStream_t) { return cudaErrorNotSupported; }
};

TRTSMITH_BIND(LogOdds)

}  // namespace trtsmith
