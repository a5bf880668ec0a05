// The rules that follow from an operator's signature, for the V3 and the V2 adapter.
//
// An Op is a plain struct. What stands above `workspace` the build writes of the operator's definition; a user's binding has all
// of it written by hand.
//     static constexpr const char *kName, *kVersion;
//     struct Params { ... };                                   // POD
//     static constexpr std::array<Field<Params>, N> kFields;
//     static constexpr Signature<I, O> kSignature;
//     template <typename D> static void shape(const Params&, const Shape<D>* in, int32_t nbInputs, Shape<D>* out);
//     static std::string check(const Params&, const Tensors&);     // "" or what does not fit; called before run
//     static size_t workspace(const Params&, const Tensors&);      // optional; bytes
//     static cudaError_t run(const Params&, const Tensors&, void* workspace, cudaStream_t);
//
// An Op whose output sizes depend on values has size ports, and two rules instead of one:
//     template <typename D>
//     static void sizes(const Params&, const Shape<D>* in, int32_t nbInputs, SizeBounds<D>* sizes);
//     template <typename D>
//     static void shape(const Params&, const Shape<D>* in, int32_t nbInputs, const D* sizes, Shape<D>* out);
// Each dimension of an output is one of `sizes` or follows from the inputs. The sizes of outputs that run() is told are
// of no use to it: it packs the outputs densely by the sizes that it finds, which it writes to the size ports, in int32.
#pragma once

#include <NvInferRuntime.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/dims.hpp"
#include "core/fields.hpp"
#include "core/signature.hpp"
#include "core/tensor.hpp"
#include "trt/expr_dim.hpp"
#include "trt/guard.hpp"
#include "trt/structs.hpp"

namespace trtsmith {

inline constexpr const char* kPluginNamespace = "trtsmith";

template <typename Op>
struct Rules {
    static_assert(Op::kSignature.optionalsAreLast(), "optional inputs must come last");
    static_assert(Op::kSignature.outputTypesFollow(), "every output type must follow from a required input");
    static_assert(Op::kSignature.sizesAreLastScalars(), "size tensors are scalars of int32 and come last");
    static_assert(Op::kSignature.maxInputs() <= kMaxPorts && Op::kSignature.nbOutputs() <= kMaxPorts);

    static constexpr bool kDataDependent = Op::kSignature.nbSizes() > 0;
    static constexpr int64_t kUnknown = -1;

    static void checkCounts(int32_t nbInputs, int32_t nbOutputs) {
        const auto& signature = Op::kSignature;
        require(nbInputs >= signature.minInputs() && nbInputs <= signature.maxInputs(),
                std::to_string(nbInputs) + " inputs; expected " + std::to_string(signature.minInputs()) + " to " +
                    std::to_string(signature.maxInputs()));
        require(nbOutputs == signature.nbOutputs(),
                std::to_string(nbOutputs) + " outputs; expected " + std::to_string(signature.nbOutputs()));
    }

    // Linear tensors whose types agree with the type variables. Looks at positions up to pos only.
    template <typename Desc>
    static bool supports(int32_t pos, const Desc* inOut, int32_t nbInputs, int32_t nbOutputs) {
        checkCounts(nbInputs, nbOutputs);
        require(pos >= 0 && pos < nbInputs + nbOutputs, "position " + std::to_string(pos) + " does not exist");
        const auto& desc = descOf(inOut[pos]);
        const TypeVar variable = Op::kSignature.at(pos, nbInputs).type;
        DType type{};
        if (desc.format != nvinfer1::TensorFormat::kLINEAR || !toDType(desc.type, type) || !allows(variable, type)) {
            return false;
        }
        if (isFixed(variable)) {
            return true;
        }
        const int32_t first = Op::kSignature.firstInputOf(variable, nbInputs);
        return first >= pos || descOf(inOut[first]).type == desc.type;
    }

    static void outputTypes(const nvinfer1::DataType* inputs, int32_t nbInputs, nvinfer1::DataType* outputs) {
        checkCounts(nbInputs, Op::kSignature.nbOutputs());
        for (int32_t i = 0; i < Op::kSignature.nbOutputs(); ++i) {
            const TypeVar variable = Op::kSignature.outputs[static_cast<size_t>(i)].type;
            if (fixedType(variable, outputs[i])) {
                continue;
            }
            outputs[i] = inputs[Op::kSignature.firstInputOf(variable, nbInputs)];
        }
    }

    static void outputShapes(const typename Op::Params& params, const nvinfer1::DimsExprs* inputs, int32_t nbInputs,
                             nvinfer1::DimsExprs* outputs, nvinfer1::IExprBuilder& builder) {
        checkCounts(nbInputs, Op::kSignature.nbOutputs());
        std::array<Shape<ExprDim>, kMaxPorts> in{};
        std::array<Shape<ExprDim>, kMaxPorts> out{};
        for (int32_t i = 0; i < nbInputs; ++i) {
            checkRank(i, inputs[i].nbDims);
            in[static_cast<size_t>(i)].rank = inputs[i].nbDims;
            for (int32_t axis = 0; axis < inputs[i].nbDims; ++axis) {
                in[static_cast<size_t>(i)][axis] = ExprDim(builder, inputs[i].d[axis]);
            }
        }
        if constexpr (kDataDependent) {
            std::array<SizeBounds<ExprDim>, kMaxPorts> bounds{};
            std::array<ExprDim, kMaxPorts> sizes{};
            Op::template sizes<ExprDim>(params, in.data(), nbInputs, bounds.data());
            for (int32_t i = 0; i < Op::kSignature.nbSizes(); ++i) {
                const auto at = static_cast<size_t>(i);
                sizes[at] = ExprDim::fromSizeTensor(builder, Op::kSignature.firstSize() + i, bounds[at]);
            }
            Op::template shape<ExprDim>(params, in.data(), nbInputs, sizes.data(), out.data());
        } else {
            Op::template shape<ExprDim>(params, in.data(), nbInputs, out.data());
        }
        for (int32_t i = 0; i < Op::kSignature.nbOutputs(); ++i) {
            outputs[i].nbDims = out[static_cast<size_t>(i)].rank;
            for (int32_t axis = 0; axis < outputs[i].nbDims; ++axis) {
                outputs[i].d[axis] = out[static_cast<size_t>(i)][axis].expr();
                require(outputs[i].d[axis] != nullptr, "the shape rule left a dimension unset");
            }
        }
    }

    static void checkRank(int32_t input, int32_t rank) {
        const Port& port = Op::kSignature.inputs[static_cast<size_t>(input)];
        require(port.rank == kAnyRank || port.rank == rank, std::string("input '") + port.name + "' has rank " +
                                                                std::to_string(rank) + "; expected " +
                                                                std::to_string(port.rank));
    }

    // Sizes are written as int32, and a kernel cannot refuse one that does not fit: so their bounds must.
    static void checkSizes(const typename Op::Params& params, const Shape<int64_t>* in, int32_t nbInputs) {
        if constexpr (kDataDependent) {
            std::array<SizeBounds<int64_t>, kMaxPorts> bounds{};
            Op::template sizes<int64_t>(params, in, nbInputs, bounds.data());
            for (int32_t i = 0; i < Op::kSignature.nbSizes(); ++i) {
                const int64_t most = bounds[static_cast<size_t>(i)].most;
                const Port& port = Op::kSignature.outputs[static_cast<size_t>(Op::kSignature.firstSize() + i)];
                require(most <= std::numeric_limits<int32_t>::max(),
                        std::string("size '") + port.name + "' can be " + std::to_string(most) +
                            " with these inputs; TensorRT's size tensors are int32");
            }
        }
    }

    template <typename Desc>
    static Tensors tensors(const Desc* in, int32_t nbInputs, const Desc* out, int32_t nbOutputs,
                           const void* const* inData = nullptr, void* const* outData = nullptr) {
        checkCounts(nbInputs, nbOutputs);
        Tensors tensors;
        tensors.nbInputs = nbInputs;
        for (int32_t i = 0; i < nbInputs; ++i) {
            tensors.in[static_cast<size_t>(i)] = tensor(in[i], inData != nullptr ? inData[i] : nullptr);
            checkRank(i, tensors.in[static_cast<size_t>(i)].shape.rank);
        }
        for (int32_t i = 0; i < nbOutputs; ++i) {
            tensors.out[static_cast<size_t>(i)] = tensor(out[i], outData != nullptr ? outData[i] : nullptr);
        }
        return tensors;
    }

    template <typename Desc>
    static size_t workspace(const typename Op::Params& params, const Desc* in, int32_t nbInputs, const Desc* out,
                            int32_t nbOutputs) {
        if constexpr (requires(const Tensors& t) { Op::workspace(params, t); }) {
            return Op::workspace(params, tensors(in, nbInputs, out, nbOutputs));
        } else {
            return 0;
        }
    }

    static void run(const typename Op::Params& params, const Tensors& tensors, void* workspace, cudaStream_t stream) {
        // Sizes are checked here and not only at build time: a dynamic shape is known now, and a kernel trusts it.
        const std::string fault = Op::check(params, tensors);
        require(fault.empty(), fault);
        std::array<Shape<int64_t>, kMaxPorts> in{};
        std::array<Shape<int64_t>, kMaxPorts> out{};
        for (size_t i = 0; i < static_cast<size_t>(tensors.nbInputs); ++i) {
            in[i] = tensors.in[i].shape;
        }
        checkSizes(params, in.data(), tensors.nbInputs);
        if constexpr (kDataDependent) {
            std::array<int64_t, kMaxPorts> sizes{};
            sizes.fill(kUnknown);  // and TensorRT does not know them either
            Op::template shape<int64_t>(params, in.data(), tensors.nbInputs, sizes.data(), out.data());
        } else {
            Op::template shape<int64_t>(params, in.data(), tensors.nbInputs, out.data());
        }
        for (size_t i = 0; i < static_cast<size_t>(Op::kSignature.nbOutputs()); ++i) {
            const Shape<int64_t>& given = tensors.out[i].shape;
            // TensorRT describes a size tensor whose upper bound is 0 as one element, [1], and every other as a scalar.
            if (static_cast<int32_t>(i) >= Op::kSignature.firstSize() && given.rank == 1 && given[0] == 1) {
                continue;
            }
            bool same = given.rank == out[i].rank;
            for (int32_t axis = 0; same && axis < given.rank; ++axis) {
                same = given[axis] == out[i][axis] || (kDataDependent && out[i][axis] == kUnknown);
            }
            require(same,
                    std::string("output '") + Op::kSignature.outputs[i].name + "' has another shape than its rule");
        }
        const cudaError_t status = Op::run(params, tensors, workspace, stream);
        require(status == cudaSuccess, std::string("CUDA error: ") + cudaGetErrorString(status));
    }

    // Fields of a TensorRT collection into params; throws with what is wrong.
    static typename Op::Params parse(const nvinfer1::PluginFieldCollection* collection) {
        require(collection != nullptr, "no field collection");
        require(collection->nbFields >= 0 && (collection->nbFields == 0 || collection->fields != nullptr),
                "an invalid field collection");
        std::vector<GivenField> given;
        for (int32_t i = 0; i < collection->nbFields; ++i) {
            const nvinfer1::PluginField& f = collection->fields[i];
            const bool isInt = f.type == nvinfer1::PluginFieldType::kINT32;
            const bool isFloat = f.type == nvinfer1::PluginFieldType::kFLOAT32;
            given.push_back(
                {f.name, isInt ? FieldKind::kInt32 : FieldKind::kFloat32, isInt || isFloat, f.length, f.data});
        }
        typename Op::Params params{};
        const std::string fault = parseFields(Op::kFields, given.data(), static_cast<int32_t>(given.size()), params);
        require(fault.empty(), fault);
        return params;
    }

private:
    template <typename Desc>
    static Tensor tensor(const Desc& desc, const void* data) {
        Tensor result{data, DType::kFloat32, toShape(sizesOf(desc))};
        require(toDType(descOf(desc).type, result.type), "a tensor has a type that no kernel takes");
        return result;
    }
};

}  // namespace trtsmith
