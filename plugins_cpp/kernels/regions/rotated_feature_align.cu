#include "kernels/regions/rotated_feature_align.cuh"

#include "kernels/channels_last.cuh"
#include "kernels/regions/sampled_items.cuh"

namespace trtsmith {
namespace {

// An item is a pixel, with a box of its own.
template <typename T>
struct Boxes {
    const T* boxes;
    int64_t pixels;
    double scale;
    int32_t points;

    __device__ int32_t samples() const { return points; }
    __device__ int64_t plane(int64_t image, int64_t /*item*/) const { return image; }

    template <int kVector>
    __device__ void begin(const T* plane, int64_t item, const sampled_items::Arguments& a,
                          float (&values)[kVector]) const {
        loadFloats<kVector>(plane + item * a.padded, true, values);
    }

    // Adds a cell's four corners times their weights; nothing where it is outside.
    template <int kVector>
    __device__ void add(const RegionCell* cells, int32_t count, const T* plane, int64_t /*item*/,
                        const sampled_items::Arguments& a, float (&values)[kVector]) const {
#pragma unroll 2
        for (int32_t sample = 0; sample < count; ++sample) {
            const RegionCell cell = cells[sample];
            const bool valid = cell.offset >= 0;
            const float upperY = 1.0F - cell.lowerY;
            const float upperX = 1.0F - cell.lowerX;
            const float weights[4] = {upperY * upperX, upperY * cell.lowerX, cell.lowerY * upperX,
                                      cell.lowerY * cell.lowerX};
            const T* const corner = plane + (valid ? cell.offset : 0) * a.padded;
            const int64_t right = (cell.steps & 1) != 0 ? a.padded : 0;
            const int64_t below = (cell.steps & 2) != 0 ? a.width * a.padded : 0;
            float corners[4][kVector];
            loadFloats<kVector>(corner, valid, corners[0]);
            loadFloats<kVector>(corner + right, valid, corners[1]);
            loadFloats<kVector>(corner + below, valid, corners[2]);
            loadFloats<kVector>(corner + below + right, valid, corners[3]);
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                float sum = weights[0] * corners[0][v];
#pragma unroll
                for (int i = 1; i < 4; ++i) {
                    sum = fmaf(weights[i], corners[i][v], sum);
                }
                values[v] += sum;
            }
        }
    }

    __device__ RegionCell cell(int64_t image, int64_t item, int32_t sample, const sampled_items::Arguments& a) const {
        const T* const box = boxes + (image * pixels + item) * 5;
        double y = loadFloat(box) * scale;
        double x = loadFloat(box + 1) * scale;
        if (sample > 0) {
            const double halfWidth = 0.5 * scale * loadFloat(box + 2) * (sample == 1 || sample == 4 ? 1.0 : -1.0);
            const double halfHeight = 0.5 * scale * loadFloat(box + 3) * (sample <= 2 ? 1.0 : -1.0);
            double sine = 0.0;
            double cosine = 0.0;
            sincos(static_cast<double>(loadFloat(box + 4)), &sine, &cosine);
            x += cosine * halfWidth - sine * halfHeight;
            y += sine * halfWidth + cosine * halfHeight;
        }
        return regionCell(y, x, a.height, a.width);
    }
};

bool isValid(const RotatedFeatureAlignParams& p, const RotatedFeatureAlignShape& s, int64_t& values) {
    int64_t boxes = 0;
    int64_t plane = 0;
    if (!elementCount({s.batch, s.channels + 8, s.height, s.width}, values) ||
        !elementCount({s.batch, s.channels, s.height, s.width}, values) ||
        !elementCount({s.batch, s.height, s.width, 5}, boxes) || !elementCount({s.height, s.width}, plane) ||
        plane > INT32_MAX || (p.points != 1 && p.points != 5)) {
        return false;
    }
    return values == 0 || (p.boxes != nullptr && p.output != nullptr && p.map != nullptr);
}

}  // namespace

size_t rotatedFeatureAlignWorkspace(const RotatedFeatureAlignParams& params, const RotatedFeatureAlignShape& shape) {
    const size_t bytes = bytesOf(params.type);
    int64_t elements = 0;
    const int64_t padded = shape.channels > 0 ? paddedChannels(shape.channels, bytes) : 0;
    const bool fits = elementCount({shape.batch, padded, shape.height, shape.width}, elements);
    return fits ? static_cast<size_t>(elements) * bytes : 0;
}

cudaError_t rotatedFeatureAlign(const RotatedFeatureAlignParams& params, const RotatedFeatureAlignShape& shape,
                                void* workspace, cudaStream_t stream) {
    int64_t values = 0;
    if (!isValid(params, shape, values) || (values > 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (values == 0) {
            return cudaSuccess;
        }
        const int64_t pixels = shape.height * shape.width;
        const cudaError_t status = channelsLast<T>(params.map, workspace, shape.batch, shape.channels, pixels, stream);
        if (status != cudaSuccess) {
            return status;
        }
        sampled_items::Arguments a{};
        a.table = workspace;
        a.output = params.output;
        a.channels = shape.channels;
        a.padded = paddedChannels(shape.channels, sizeof(T));
        a.items = pixels;
        a.height = static_cast<int32_t>(shape.height);
        a.width = static_cast<int32_t>(shape.width);
        const Boxes<T> boxes{static_cast<const T*>(params.boxes), pixels, static_cast<double>(params.scale),
                             params.points};
        return sampled_items::sampleItems<T>(a, shape.batch, boxes, stream);
    });
}

}  // namespace trtsmith
