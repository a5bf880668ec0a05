#include "kernels/regions/rotated_feature_align.cuh"

#include "kernels/regions/channels_last.cuh"
#include "kernels/regions/sampled_items.cuh"

namespace trtsmith {
namespace {

// An item is a pixel, with a box of its own.
template <typename T>
struct Boxes {
    static constexpr bool kMax = false;

    const T* boxes;
    int64_t pixels;
    double scale;
    int32_t points;

    __device__ int32_t samples() const { return points; }
    __device__ int64_t plane(int64_t image, int64_t /*item*/) const { return image; }
    __device__ int64_t own(int64_t item) const { return item; }

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
    const int64_t padded = shape.channels > 0 ? channels_last::paddedChannels(shape.channels, bytes) : 0;
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
        const cudaError_t status =
            channels_last::moveChannels<T>(params.map, workspace, shape.batch, shape.channels, pixels, stream);
        if (status != cudaSuccess) {
            return status;
        }
        sampled_items::Arguments a{};
        a.table = workspace;
        a.output = params.output;
        a.channels = shape.channels;
        a.padded = channels_last::paddedChannels(shape.channels, sizeof(T));
        a.items = pixels;
        a.height = static_cast<int32_t>(shape.height);
        a.width = static_cast<int32_t>(shape.width);
        const Boxes<T> boxes{static_cast<const T*>(params.boxes), pixels, static_cast<double>(params.scale),
                             params.points};
        return sampled_items::sampleItems<T>(a, shape.batch, boxes, stream);
    });
}

}  // namespace trtsmith
