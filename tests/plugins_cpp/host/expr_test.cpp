// Dimension expressions through the public interface that plugins use. Prints what is wrong; exits 1 if anything is.
#include "host/expr.hpp"

#include <limits>

#include "expect.hpp"
#include "host/error.hpp"

using namespace trtsmith::host;
using expecting::expect;
using nvinfer1::DimensionOperation;
using nvinfer1::IDimensionExpr;
using nvinfer1::IExprBuilder;

namespace {

struct Row {
    DimensionOperation op;
    int64_t a;
    int64_t b;
    int64_t result;
    const char* text;
};

// Every operation, with the roundings that differ for negative numbers.
const Row kROWS[] = {
    {DimensionOperation::kSUM, 7, 2, 9, "add(x, 2)"},
    {DimensionOperation::kPROD, 7, -2, -14, "mul(x, -2)"},
    {DimensionOperation::kMAX, 7, 2, 7, "max(x, 2)"},
    {DimensionOperation::kMIN, 7, 2, 2, "min(x, 2)"},
    {DimensionOperation::kSUB, 2, 7, -5, "sub(x, 7)"},
    {DimensionOperation::kEQUAL, 7, 7, 1, "equal(x, 7)"},
    {DimensionOperation::kEQUAL, 7, 2, 0, "equal(x, 2)"},
    {DimensionOperation::kLESS, 2, 7, 1, "less(x, 7)"},
    {DimensionOperation::kLESS, 7, 7, 0, "less(x, 7)"},
    {DimensionOperation::kFLOOR_DIV, 7, 2, 3, "floor_div(x, 2)"},
    {DimensionOperation::kFLOOR_DIV, -7, 2, -4, "floor_div(x, 2)"},
    {DimensionOperation::kFLOOR_DIV, -8, 2, -4, "floor_div(x, 2)"},
    {DimensionOperation::kCEIL_DIV, 7, 2, 4, "ceil_div(x, 2)"},
    {DimensionOperation::kCEIL_DIV, -7, 2, -3, "ceil_div(x, 2)"},
    {DimensionOperation::kCEIL_DIV, 8, 2, 4, "ceil_div(x, 2)"},
};

void constantsFold() {
    for (const Row& row : kROWS) {
        ExprBuilder builder;
        IExprBuilder& plugins = builder;
        const IDimensionExpr* const r = plugins.operation(row.op, *plugins.constant(row.a), *plugins.constant(row.b));
        expect(r->isConstant() && r->getConstantValue() == row.result, std::string("constant ") + row.text);
        expect(!r->isSizeTensor(), "a constant is no size tensor");
    }
}

void symbolsStay() {
    for (const Row& row : kROWS) {
        ExprBuilder builder;
        IExprBuilder& plugins = builder;
        const IDimensionExpr* const r =
            plugins.operation(row.op, *builder.symbol("x", row.a), *plugins.constant(row.b));
        expect(!r->isConstant(), "a symbol is not constant");
        expect(r->getConstantValue() == std::numeric_limits<int64_t>::min(), "value of what is not constant");
        expect(builder.find(r)->text() == row.text, builder.find(r)->text());
        expect(builder.find(r)->evaluate() == row.result, std::string("symbol ") + row.text);
    }
    ExprBuilder builder;
    const IDimensionExpr* const r =
        builder.operation(DimensionOperation::kSUM, *builder.symbol("x", std::nullopt), *builder.constant(1));
    expect(!builder.find(r)->evaluate(), "an unknown symbol has no value");
}

void sizeTensors() {
    ExprBuilder builder;
    IExprBuilder& plugins = builder;
    const IDimensionExpr* const r = plugins.declareSizeTensor(1, *plugins.constant(5), *builder.symbol("n", 10));
    expect(r->isSizeTensor() && !r->isConstant(), "a size tensor");
    expect(builder.find(r)->sizeOutput() == 1, "the output of a size tensor");
    expect(builder.find(r)->evaluate() == 10, "a size tensor evaluates to its upper bound");
    expect(builder.find(r)->text() == "size_tensor(output 1, opt 5, upper n)", builder.find(r)->text());
    const IDimensionExpr* const twice = plugins.operation(DimensionOperation::kPROD, *r, *plugins.constant(2));
    expect(builder.find(twice)->evaluate() == 20, "arithmetic on a size tensor");
}

// `body` is no error at once, but the builder keeps it.
template <typename Body>
void expectFailure(const char* words, Body&& body) {
    ExprBuilder builder;
    body(builder);
    expecting::expectFailure(words, [&] { builder.check(); });
}

void failuresAreKept() {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    for (const DimensionOperation op : {DimensionOperation::kFLOOR_DIV, DimensionOperation::kCEIL_DIV}) {
        expectFailure("by zero", [&](ExprBuilder& b) { b.operation(op, *b.constant(1), *b.constant(0)); });
        expectFailure("overflows", [&](ExprBuilder& b) { b.operation(op, *b.constant(-kMost - 1), *b.constant(-1)); });
    }
    for (const DimensionOperation op : {DimensionOperation::kSUM, DimensionOperation::kPROD}) {
        expectFailure("overflows", [&](ExprBuilder& b) { b.operation(op, *b.constant(kMost), *b.constant(2)); });
    }
    expectFailure("does not exist", [](ExprBuilder& b) {
        b.operation(static_cast<DimensionOperation>(99), *b.constant(1), *b.symbol("x", 1));
    });
    expectFailure("never made", [](ExprBuilder& b) {
        ExprBuilder other;
        b.operation(DimensionOperation::kSUM, *b.constant(1), *other.constant(1));
    });
    expectFailure("size tensor of output 1 is tuned for 6 and is at most 5",
                  [](ExprBuilder& b) { b.declareSizeTensor(1, *b.constant(6), *b.symbol("n", 5)); });
    expectFailure("tuned for -1", [](ExprBuilder& b) { b.declareSizeTensor(1, *b.constant(-1), *b.constant(5)); });
    expectFailure("depends on a size tensor", [](ExprBuilder& b) {
        const auto* const size = b.declareSizeTensor(1, *b.constant(1), *b.constant(5));
        b.declareSizeTensor(2, *b.operation(DimensionOperation::kSUM, *size, *b.constant(1)), *b.constant(9));
    });
    ExprBuilder fine;
    fine.declareSizeTensor(1, *fine.constant(5), *fine.constant(5));
    fine.check();
}

}  // namespace

int main() {
    constantsFold();
    symbolsStay();
    sizeTensors();
    failuresAreKept();
    return expecting::exitCode();
}
