// Inverse of every matrix of a batch. Declaration only: needs neither nvcc nor TensorRT.
//
// Method: Gauss-Jordan elimination with partial pivoting (Golub and Van Loan, "Matrix Computations", section 3.4 for
// the pivoting), then one step of iterative refinement (the Newton iteration of Schulz, 1933): X + (I - X A) X, with
// the residual I - X A in twice the precision; all of it in fp32 for every element type. The step about squares the
// relative error of the elimination, by itself larger than that of LU: what is left is the rounding of the result up
// to a condition of about 1e4. A row of X whose residual has a 1-norm above 1/2 or not a number stays as it is. The
// same function as numpy.linalg.inv and onnxruntime's Inverse.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dtype.hpp"

namespace trtsmith {

struct MatrixInverseShape {
    int64_t batch;  // product of all dimensions but the last two
    int64_t size;   // n
};

// Device pointers, row-major, aligned to their element size; they may be null when there is no element. The output must
// not overlap the input.
struct MatrixInverseParams {
    DType type;         // kFloat32, kFloat16 or kBFloat16
    const void* input;  // [batch, n, n]
    void* output;       // [batch, n, n]
};

// Bytes of device memory that matrixInverse needs as `workspace`: 0 up to n = 96, which fits in shared memory; above,
// at most 4 (n^2 + 194 n), rounded up to 256, for each of at most 256 matrices. 0 also for a shape that matrixInverse
// refuses.
size_t matrixInverseWorkspace(const MatrixInverseShape& shape);

// Enqueues on `stream`. `workspace` is aligned to 16 bytes and unused, so it may be null, where matrixInverseWorkspace
// gives 0. A singular matrix gives infinities or NaN, and one that holds a NaN gives NaN, in that matrix alone.
// Returns cudaErrorInvalidValue for a negative or overflowing size, a wrong type, or a null pointer that is needed;
// otherwise the error of the launch.
cudaError_t matrixInverse(const MatrixInverseParams& params, const MatrixInverseShape& shape, void* workspace,
                          cudaStream_t stream);

}  // namespace trtsmith
