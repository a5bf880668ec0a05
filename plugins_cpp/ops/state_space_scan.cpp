// The selective scan of a state space: a launch of the kernel in kernels/.
#include "kernels/state_space_scan.cuh"

#include "definitions/state_space_scan.hpp"
#include "ops/binding.hpp"

namespace trtsmith {

struct StateSpaceScan : StateSpaceScanDefinition {
    static cudaError_t run(const Params& p, const Tensors& t, void*, cudaStream_t stream) {
        const Tensor& u = t.in[kU];
        const auto floats = [&](auto port) { return static_cast<const float*>(t.in[port].data); };
        const StateSpaceScanParams params{
            .type = u.type,
            .u = u.data,
            .delta = t.in[kDelta].data,
            .a = floats(kA),
            .b = t.in[kB].data,
            .c = t.in[kC].data,
            .d = floats(kD),
            .z = t.has(kZ) ? t.in[kZ].data : nullptr,
            .bias = floats(kDeltaBias),
            .output = t.output(0),
            .last = static_cast<float*>(t.output(1)),
            .softplus = p.delta_softplus != 0,
        };
        const StateSpaceScanShape shape{
            .batch = u[0],
            .channels = u[1],
            .groups = t.in[kB][1],
            .states = t.in[kA][1],
            .length = u[2],
        };
        return stateSpaceScan(params, shape, stream);
    }
};

TRTSMITH_BIND(StateSpaceScan)

}  // namespace trtsmith
