// Powers of two by the unit of special functions, of relative error 2^-22: exponentials are those of x * kLog2E.
#pragma once

namespace trtsmith {

constexpr float kLog2E = 1.4426950408889634F;

__device__ inline float exp2Fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace trtsmith
