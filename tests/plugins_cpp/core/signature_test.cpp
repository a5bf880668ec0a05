// Ports, type variables and size ports. Prints what is wrong; exits 1 if anything is.
#include "core/signature.hpp"

#include <vector>

#include "expect.hpp"

using namespace trtsmith;
using expecting::expect;

namespace {

struct Row {
    TypeVar variable;
    const char* name;
    std::vector<DType> types;
};

const DType kTYPES[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64, DType::kBool};

const Row kROWS[] = {
    {TypeVar::kT, "T", {DType::kFloat32, DType::kFloat16, DType::kBFloat16}},
    {TypeVar::kI, "I", {DType::kInt32, DType::kInt64}},
    {TypeVar::kE, "E", {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64}},
    {TypeVar::kV,
     "V",
     {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64, DType::kBool}},
    {TypeVar::kF, "F", {DType::kFloat32}},
    {TypeVar::kB, "B", {DType::kBool}},
    {TypeVar::kN, "N", {DType::kInt64}},
    {TypeVar::kS, "S", {DType::kInt32}},
};

void typeVariables() {
    for (const Row& row : kROWS) {
        const std::string name = row.name;
        expect(name == nameOf(row.variable), "the name of " + name);
        for (const DType type : kTYPES) {
            bool listed = false;
            for (const DType one : row.types) {
                listed = listed || one == type;
            }
            expect(allows(row.variable, type) == listed, name + " and type " + std::to_string(static_cast<int>(type)));
        }
        expect(isFixed(row.variable) == (row.types.size() == 1), name + " is one type");
    }
}

constexpr Port kX{"x", TypeVar::kE, kAnyRank};
constexpr Port kY{"y", TypeVar::kE, kAnyRank};
constexpr Port kAt{"at", TypeVar::kN, 1};
constexpr Port kCount{"count", TypeVar::kS, 0, false, true};
constexpr Port kPairs{"pairs", TypeVar::kS, 0, false, true};
constexpr Port kLimit{"limit", TypeVar::kF, 1, true};
constexpr Port kFloor{"floor", TypeVar::kT, 1, true};

void sizePorts() {
    constexpr Signature<1, 1> kNone{{kX}, {kY}};
    expect(kNone.nbSizes() == 0 && kNone.firstSize() == 1, "no sizes");
    expect(kNone.sizesAreLastScalars(), "no sizes are last");

    constexpr Signature<1, 4> kTwo{{kX}, {kY, kAt, kCount, kPairs}};
    expect(kTwo.nbSizes() == 2 && kTwo.firstSize() == 2, "two sizes, from output 2 on");
    expect(kTwo.sizesAreLastScalars(), "two sizes are last");

    constexpr Signature<1, 1> kAlone{{kX}, {kCount}};
    expect(kAlone.firstSize() == 0 && kAlone.sizesAreLastScalars(), "a size alone");

    constexpr Signature<1, 3> kMiddle{{kX}, {kY, kCount, kAt}};
    expect(!kMiddle.sizesAreLastScalars(), "a size before another output");

    Port vector = kCount;
    vector.rank = 1;
    expect(!Signature<1, 2>{{kX}, {kY, vector}}.sizesAreLastScalars(), "a size with a dimension");
    Port wide = kCount;
    wide.type = TypeVar::kN;
    expect(!Signature<1, 2>{{kX}, {kY, wide}}.sizesAreLastScalars(), "a size of int64");
    Port index = kCount;
    index.type = TypeVar::kI;
    expect(!Signature<1, 2>{{kX}, {kY, index}}.sizesAreLastScalars(), "a size of either int");
}

void typesOfOutputs() {
    expect((Signature<1, 3>{{kX}, {kY, kAt, kCount}}.outputTypesFollow()), "from an input, and fixed ones");
    const Port sum{"sum", TypeVar::kT, 1};
    expect((!Signature<1, 1>{{kX}, {sum}}.outputTypesFollow()), "from no input");
    expect((!Signature<2, 1>{{kX, kFloor}, {sum}}.outputTypesFollow()), "from an optional input");
}

void inputs() {
    constexpr Signature<3, 2> kThree{{kX, kLimit, kFloor}, {kY, kCount}};
    expect(kThree.minInputs() == 1 && kThree.maxInputs() == 3, "one to three inputs");
    expect(kThree.optionalsAreLast(), "optional inputs are last");
    expect((!Signature<2, 1>{{kLimit, kX}, {kY}}.optionalsAreLast()), "an optional input in front");
    expect(kThree.at(1, 3).name == kLimit.name, "position 1 of three inputs");
    expect(kThree.at(1, 1).name == kY.name, "position 1 of one input is the first output");
    expect(kThree.at(4, 3).size && !kThree.at(3, 3).size, "the last position is the size");
    expect(kThree.firstInputOf(TypeVar::kT, 3) == 2, "the input that T follows");
    expect(kThree.firstInputOf(TypeVar::kT, 2) == -1, "which is not connected");
}

}  // namespace

int main() {
    typeVariables();
    sizePorts();
    typesOfOutputs();
    inputs();
    return expecting::exitCode();
}
