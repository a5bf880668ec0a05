// Sums of products in twice the precision of fp32, without fp64, which consumer GPUs run at 1/64 of the speed.
#pragma once

namespace trtsmith {

// Adds first * second to sum + error. The rounding errors of the product (by FMA) and of the addition (Knuth's two-sum)
// are exact; only their own sum is rounded: algorithm Dot2 of Ogita, Rump and Oishi, "Accurate Sum and Dot Product"
// (2005). Intrinsics, because the compiler may contract a written product and sum to one FMA.
__device__ inline void addProduct(float first, float second, float& sum, float& error) {
    const float product = __fmul_rn(first, second);
    const float productError = __fmaf_rn(first, second, -product);
    const float next = __fadd_rn(sum, product);
    const float added = __fsub_rn(next, sum);
    const float sumError = __fadd_rn(__fsub_rn(sum, __fsub_rn(next, added)), __fsub_rn(product, added));
    sum = next;
    error = __fadd_rn(error, __fadd_rn(productError, sumError));
}

}  // namespace trtsmith
