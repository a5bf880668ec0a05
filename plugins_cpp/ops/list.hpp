// The operators of the libraries: an explicit list, one line each.
#pragma once

// Shapes of outputs follow from those of inputs: in the V3 and in the V2 library.
#define TRTSMITH_FIXED_OPERATORS(X)   \
    X(MultiscaleDeformableAttention)  \
    X(ModulatedDeformableConvolution) \
    X(DeformableConvolution)          \
    X(MatrixInverse)

// Shapes of outputs depend on values (ops/sized): in the V3 library alone, as the V2 interface cannot say so.
#define TRTSMITH_SIZED_OPERATORS(X) \
    X(NonZeroPositions)             \
    X(SelectedSlices)               \
    X(UniqueSlices)                 \
    X(BoxSelection)

#ifdef TRTSMITH_PLUGIN_V2
#define TRTSMITH_OPERATORS(X) TRTSMITH_FIXED_OPERATORS(X)
#else
#define TRTSMITH_OPERATORS(X) TRTSMITH_FIXED_OPERATORS(X) TRTSMITH_SIZED_OPERATORS(X)
#endif
