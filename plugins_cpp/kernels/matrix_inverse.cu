#include "matrix_inverse.cuh"

#include "dispatch.cuh"
#include "matrix_inverse_shared.cuh"
#include "matrix_inverse_tiny.cuh"
#include "matrix_inverse_workspace.cuh"

namespace trtsmith {
namespace {

using namespace matrix_inverse_detail;

bool possible(const MatrixInverseShape& shape, int64_t& elements) {
    int64_t matrix = 0;
    // The second product bounds n below 2^28 even for an empty batch.
    return elementCount({shape.batch, shape.size, shape.size}, elements) &&
           elementCount({shape.size, shape.size}, matrix);
}

}  // namespace

size_t matrixInverseWorkspace(const MatrixInverseShape& shape) {
    int64_t elements = 0;
    if (!possible(shape, elements) || elements == 0 || shape.size <= kMaxShared) {
        return 0;
    }
    return static_cast<size_t>(workspaceSlab(shape.size) * slabCount(shape.batch)) * sizeof(float);
}

cudaError_t matrixInverse(const MatrixInverseParams& params, const MatrixInverseShape& shape, void* workspace,
                          cudaStream_t stream) {
    int64_t elements = 0;
    if (!possible(shape, elements)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto) -> cudaError_t {
        if (elements == 0) {
            return cudaSuccess;
        }
        if (params.input == nullptr || params.output == nullptr) {
            return cudaErrorInvalidValue;
        }
        Arguments arguments{};
        arguments.type = params.type;
        arguments.input = params.input;
        arguments.output = params.output;
        arguments.batch = shape.batch;
        arguments.size = static_cast<int32_t>(shape.size);
        switch (shape.size) {
            case 1:
                return launchTiny<1>(arguments, stream);
            case 2:
                return launchTiny<2>(arguments, stream);
            case 3:
                return launchTiny<3>(arguments, stream);
            case kMaxTiny:
                return launchTiny<kMaxTiny>(arguments, stream);
            default:
                return shape.size <= kMaxShared ? launchShared(arguments, stream)
                                                : launchWorkspace(arguments, workspace, stream);
        }
    });
}

}  // namespace trtsmith
