#include "kernels/regions/border_align.cuh"

#include "kernels/channels_last.cuh"
#include "kernels/regions/sampled_items.cuh"

namespace trtsmith {
namespace {

// An item is a border of a box; of an image, boxes come first.
template <typename T>
struct Borders {
    const T* boxes;
    int64_t itemsOfImage;
    int32_t steps;

    __device__ int32_t samples() const { return steps + 1; }
    __device__ int64_t plane(int64_t image, int64_t item) const { return image * 4 + item % 4; }

    template <int kVector>
    __device__ void begin(const T* /*plane*/, int64_t /*item*/, const sampled_items::Arguments& /*a*/,
                          float (&values)[kVector]) const {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            values[v] = -INFINITY;
        }
    }

    // Samples of a border differ along it alone. Across it, pixels are interpolated once for all samples between them: the
    // next sample lies between the same two, or one of them serves again, unless the border is long.
    template <int kVector>
    __device__ void add(const RegionCell* cells, int32_t count, const T* plane, int64_t item,
                        const sampled_items::Arguments& a, float (&values)[kVector]) const {
        const bool horizontal = item % 2 == 0;
        const int32_t unit = horizontal ? 1 : a.width;
        float near[kVector];
        float far[kVector];
        int32_t before = INT32_MIN / 2;
        for (int32_t sample = 0; sample < count; ++sample) {
            const RegionCell cell = cells[sample];
            if (cell.offset < 0) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    values[v] = fmaxf(values[v], 0.0F);
                }
                continue;
            }
            const int32_t moved = cell.offset - before;
            const int64_t right = (cell.steps & 1) != 0 ? a.padded : 0;
            const int64_t below = (cell.steps & 2) != 0 ? a.width * a.padded : 0;
            const int64_t across = horizontal ? below : right;
            const float share = horizontal ? cell.lowerY : cell.lowerX;
            const float part = horizontal ? cell.lowerX : cell.lowerY;
            const T* const corner = plane + cell.offset * a.padded;
            if (moved == -unit) {
                copy(near, far);
            } else if (moved == unit) {
                copy(far, near);
            }
            if (moved != 0 && moved != unit) {
                interpolate(corner, across, share, near);
            }
            if (moved != 0 && moved != -unit) {
                interpolate(corner + (horizontal ? right : below), across, share, far);
            }
            before = cell.offset;
#pragma unroll
            for (int v = 0; v < kVector; ++v) {
                values[v] = fmaxf(values[v], fmaf(part, far[v], (1.0F - part) * near[v]));
            }
        }
    }

    template <int kVector>
    __device__ static void copy(const float (&from)[kVector], float (&to)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            to[v] = from[v];
        }
    }

    template <int kVector>
    __device__ static void interpolate(const T* pixel, int64_t across, float share, float (&line)[kVector]) {
        float other[kVector];
        loadFloats<kVector>(pixel, true, line);
        loadFloats<kVector>(pixel + across, true, other);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
            line[v] = fmaf(share, other[v], (1.0F - share) * line[v]);
        }
    }

    // Top and left borders begin at the first corner, bottom and right ones at the other, and go back.
    __device__ RegionCell cell(int64_t image, int64_t item, int32_t sample, const sampled_items::Arguments& a) const {
        const T* const box = boxes + (image * itemsOfImage + item) / 4 * 4;
        const int32_t border = static_cast<int32_t>(item % 4);
        const double x1 = loadFloat(box);
        const double y1 = loadFloat(box + 1);
        const double x2 = loadFloat(box + 2);
        const double y2 = loadFloat(box + 3);
        const bool back = border >= 2;
        const bool across = border % 2 == 0;
        const double part = (back ? -1.0 : 1.0) * sample / steps;
        const double x = (back ? x2 : x1) + (across ? (x2 - x1) * part : 0.0);
        const double y = (back ? y2 : y1) + (across ? 0.0 : (y2 - y1) * part);
        return regionCell(y, x, a.height, a.width);
    }
};

bool isValid(const BorderAlignParams& p, const BorderAlignShape& s, int64_t& outputs, int64_t& values) {
    int64_t boxes = 0;
    int64_t plane = 0;
    if (!elementCount({s.batch, 4, s.channels + 8, s.height, s.width}, values) ||
        !elementCount({s.batch, s.channels, 4, s.height, s.width}, values) ||
        !elementCount({s.batch, s.boxes, 4}, boxes) || !elementCount({s.height, s.width}, plane) || plane > INT32_MAX ||
        s.height > INT32_MAX || s.width > INT32_MAX || p.steps < 1 || p.steps == INT32_MAX ||
        !elementCount({s.batch, s.channels, s.boxes, 4}, outputs)) {
        return false;
    }
    return outputs == 0 || (p.boxes != nullptr && p.output != nullptr && (values == 0 || p.map != nullptr));
}

}  // namespace

size_t borderAlignWorkspace(const BorderAlignParams& params, const BorderAlignShape& shape) {
    const size_t bytes = bytesOf(params.type);
    int64_t elements = 0;
    const int64_t padded = shape.channels > 0 ? paddedChannels(shape.channels, bytes) : 0;
    const bool fits = elementCount({shape.batch, 4, padded, shape.height, shape.width}, elements);
    return fits ? static_cast<size_t>(elements) * bytes : 0;
}

cudaError_t borderAlign(const BorderAlignParams& params, const BorderAlignShape& shape, void* workspace,
                        cudaStream_t stream) {
    int64_t outputs = 0;
    int64_t values = 0;
    if (!isValid(params, shape, outputs, values) || (outputs > 0 && values > 0 && workspace == nullptr)) {
        return cudaErrorInvalidValue;
    }
    return withFloatType(params.type, [&](auto tag) -> cudaError_t {
        using T = typename decltype(tag)::type;
        if (outputs == 0) {
            return cudaSuccess;
        }
        const int64_t pixels = shape.height * shape.width;
        const cudaError_t status =
            channelsLast<T>(params.map, workspace, shape.batch * 4, shape.channels, pixels, stream);
        if (status != cudaSuccess) {
            return status;
        }
        sampled_items::Arguments a{};
        a.table = workspace;
        a.output = params.output;
        a.channels = shape.channels;
        a.padded = paddedChannels(shape.channels, sizeof(T));
        a.items = shape.boxes * 4;
        a.height = static_cast<int32_t>(shape.height);
        a.width = static_cast<int32_t>(shape.width);
        const Borders<T> borders{static_cast<const T*>(params.boxes), a.items, params.steps};
        return sampled_items::sampleItems<T>(a, shape.batch, borders, stream);
    });
}

}  // namespace trtsmith
