// The rules that both adapters follow, on an operator with a size tensor. Prints what is wrong; exits 1 if anything is.
#include "expect.hpp"
#include "host/expr.hpp"
#include "trt/adapt.hpp"

using namespace trtsmith;
using expecting::expect;
using expecting::expectFailure;
using nvinfer1::DataType;

namespace {

int runs = 0;

// The rows of x that something holds for: how many only a run tells.
struct Rows {
    static constexpr const char* kName = "Rows";
    static constexpr const char* kVersion = "1";
    struct Params {};
    static constexpr std::array<Field<Params>, 0> kFields{};
    static constexpr Signature<2, 3> kSignature{
        {{{"x", TypeVar::kE, 2}, {"limit", TypeVar::kF, 1, true}}},
        {{{"y", TypeVar::kE, 2}, {"at", TypeVar::kN, 1}, {"count", TypeVar::kS, 0, false, true}}},
    };

    template <typename D>
    static void sizes(const Params&, const Shape<D>* in, int32_t, SizeBounds<D>* sizes) {
        sizes[0] = {floorDiv(in[0][0], 2), in[0][0]};
    }

    template <typename D>
    static void shape(const Params&, const Shape<D>* in, int32_t, const D* sizes, Shape<D>* out) {
        out[0] = Shape<D>::of(sizes[0], in[0][1]);
        out[1] = Shape<D>::of(sizes[0]);
        out[2] = Shape<D>{};
    }

    static std::string check(const Params&, const Tensors&) { return ""; }

    static cudaError_t run(const Params&, const Tensors&, void*, cudaStream_t) {
        ++runs;
        return cudaSuccess;
    }
};

using Rule = Rules<Rows>;
constexpr int64_t kMost = 2147483647;

nvinfer1::PluginTensorDesc desc(DataType type, std::initializer_list<int64_t> sizes) {
    nvinfer1::PluginTensorDesc result{};
    result.type = type;
    result.format = nvinfer1::TensorFormat::kLINEAR;
    for (const int64_t size : sizes) {
        result.dims.d[result.dims.nbDims++] = size;
    }
    return result;
}

void types() {
    const DataType inputs[] = {DataType::kHALF, DataType::kFLOAT};
    DataType outputs[3]{};
    Rule::outputTypes(inputs, 2, outputs);
    expect(outputs[0] == DataType::kHALF, "y has the type of x");
    expect(outputs[1] == DataType::kINT64, "positions are int64");
    expect(outputs[2] == DataType::kINT32, "TensorRT's size tensors are int32");
}

void formats() {
    nvinfer1::PluginTensorDesc all[] = {desc(DataType::kHALF, {4, 3}), desc(DataType::kHALF, {4, 3}),
                                        desc(DataType::kINT64, {4}), desc(DataType::kINT32, {})};
    for (int32_t pos = 0; pos < 4; ++pos) {
        expect(Rule::supports(pos, all, 1, 3), "position " + std::to_string(pos));
    }
    all[3].type = DataType::kINT64;
    expect(!Rule::supports(3, all, 1, 3), "a size of int64");
    all[1].type = DataType::kFLOAT;
    expect(!Rule::supports(1, all, 1, 3), "a y that differs from x");
}

void shapes() {
    host::ExprBuilder builder;
    nvinfer1::DimsExprs inputs[1]{};
    inputs[0].nbDims = 2;
    inputs[0].d[0] = builder.symbol("n", 9);
    inputs[0].d[1] = builder.constant(3);
    nvinfer1::DimsExprs outputs[3]{};
    Rule::outputShapes({}, inputs, 1, outputs, builder);
    builder.check();
    expect(outputs[0].nbDims == 2 && outputs[1].nbDims == 1 && outputs[2].nbDims == 0, "ranks");
    for (int32_t i = 0; i < 2; ++i) {
        const host::Expr* const rows = builder.find(outputs[i].d[0]);
        expect(rows->sizeOutput() == 2, "output 2 holds the rows of output " + std::to_string(i));
        expect(rows->text() == "size_tensor(output 2, opt floor_div(n, 2), upper n)", rows->text());
    }
    expect(builder.find(outputs[0].d[1])->getConstantValue() == 3, "columns are known");
}

void bounds() {
    Shape<int64_t> in[] = {Shape<int64_t>::of(kMost, 3)};
    Rule::checkSizes({}, in, 1);
    in[0][0] = kMost + 1;
    expectFailure("size 'count' can be 2147483648", [&] { Rule::checkSizes({}, in, 1); });
}

Tensors tensorsOf(std::initializer_list<int64_t> x, std::initializer_list<int64_t> y) {
    const nvinfer1::PluginTensorDesc in[] = {desc(DataType::kFLOAT, x)};
    const nvinfer1::PluginTensorDesc out[] = {desc(DataType::kFLOAT, y), desc(DataType::kINT64, {-1}),
                                              desc(DataType::kINT32, {})};
    return Rule::tensors(in, 1, out, 3);
}

void runsWhatFits() {
    Rule::run({}, tensorsOf({4, 3}, {-1, 3}), nullptr, nullptr);
    Rule::run({}, tensorsOf({4, 3}, {4, 3}), nullptr, nullptr);
    expect(runs == 2, "sizes that only the run finds may be told in any way");
    expectFailure("output 'y' has another shape", [] { Rule::run({}, tensorsOf({4, 3}, {-1, 5}), nullptr, nullptr); });
    expectFailure("size 'count'", [] { Rule::run({}, tensorsOf({kMost + 1, 3}, {-1, 3}), nullptr, nullptr); });
    expect(runs == 2, "what is refused does not run");
}

}  // namespace

int main() {
    types();
    formats();
    shapes();
    bounds();
    runsWhatFits();
    return expecting::exitCode();
}
