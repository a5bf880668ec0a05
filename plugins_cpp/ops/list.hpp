// The operators of the library: an explicit list, one line each.
#pragma once

#define TRTSMITH_OPERATORS(X)          \
    X(MultiscaleDeformableAttention)   \
    X(ModulatedDeformableConvolution)  \
    X(DeformableConvolution)           \
    X(MatrixInverse)
