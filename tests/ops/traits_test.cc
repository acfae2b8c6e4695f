// What operators say of themselves on their FERRY_OPERATOR lines, held against what they do.
#include "ops/traits.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "ops/support/broadcast.h"
#include "tests/ops/trait_samples.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::OneNode;
using testing::RunNode;
using testing::Sample;

TEST(Operators, AreFoundByDomainAndName) {
  for (const Operator* op : AllOperators()) EXPECT_EQ(FindOperator(op->domain, op->name), op) << op->name;
  EXPECT_EQ(FindOperator("ai.onnx", "Relu"), FindOperator("", "Relu"));
  EXPECT_EQ(FindOperator(kMlDomain, "Relu"), nullptr);
  EXPECT_EQ(FindOperator("", "Rel"), nullptr);
  EXPECT_EQ(FindOperator("", ""), nullptr);
}

class Traits : public ::testing::Test {
 protected:
  // Calls check(operator, sample) for all samples of operators with a trait. An operator without one that can be
  // checked is a failure.
  template <class Has, class Check>
  void ForEachWith(const Has& has, const Check& check) {
    size_t operators = 0;
    for (const Operator* op : AllOperators()) {
      if (!has(*op)) continue;
      ++operators;
      bool checked = false;
      for (const Sample& sample : samples_) {
        if (&TraitsOf(sample.node) != op) continue;
        SCOPED_TRACE(Describe(sample.node));
        checked |= check(*op, sample);
      }
      EXPECT_TRUE(checked) << op->name << " of '" << op->domain << "' needs a sample in tests/ops/trait_samples.cc";
    }
    EXPECT_GT(operators, 0u);
  }

  const std::vector<Sample> samples_ = testing::TraitSamples();
};

Value Turned(const Value& value) {
  Node transpose = OneNode("Transpose", 1);
  return RunNode(transpose, {value})[0];
}
Value Flat(const Value& value) {
  Node flatten = OneNode("Flatten", 1);
  flatten.Set("axis", int64_t{0});
  return RunNode(flatten, {value})[0];
}
Value Spread(const Value& value, const Shape& shape) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  return RunNode(OneNode("Expand", 2), {value, Tensor::FromVector(sizes)})[0];
}

// The same bits, or NaN on both sides.
void ExpectSame(const Value& a, const Value& b) {
  ASSERT_TRUE(a.is_tensor() && b.is_tensor());
  const Tensor &x = a.tensor(), &y = b.tensor();
  ASSERT_EQ(x.dtype(), y.dtype());
  ASSERT_EQ(ToText(x.shape()), ToText(y.shape()));
  if (x.dtype() != DType::kFloat) {
    EXPECT_TRUE(Identical(x, y));
    return;
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    float left = x.Data<float>()[i], right = y.Data<float>()[i];
    EXPECT_TRUE(std::memcmp(&left, &right, sizeof left) == 0 || (left != left && right != right))
        << "at " << i << ": " << left << " and " << right;
  }
}

TEST_F(Traits, ElementsOfOneInputGoTheirWayAlone) {
  auto has = [](const Operator& op) { return op.elementwise == Elementwise::kOfOne; };
  ForEachWith(has, [](const Operator&, const Sample& sample) {
    for (size_t i = 1; i < sample.inputs.size(); ++i) EXPECT_EQ(sample.inputs[i].tensor().size(), 1);
    Value whole = RunNode(sample.node, sample.inputs)[0];
    for (auto* change : {Turned, Flat}) {
      std::vector<Value> inputs = sample.inputs;
      inputs[0] = change(inputs[0]);
      ExpectSame(RunNode(sample.node, inputs)[0], change(whole));
    }
    return true;
  });
}

TEST_F(Traits, ElementsOfSeveralInputsMeetAfterBroadcasting) {
  auto has = [](const Operator& op) { return op.elementwise == Elementwise::kOfSeveral; };
  ForEachWith(has, [](const Operator&, const Sample& sample) {
    Value whole = RunNode(sample.node, sample.inputs)[0];
    Shape shape = sample.inputs[0].tensor().shape();
    for (const Value& input : sample.inputs) shape = BroadcastShapes(shape, input.tensor().shape());
    EXPECT_EQ(ToText(whole.tensor().shape()), ToText(shape));
    std::vector<Value> inputs;
    for (const Value& input : sample.inputs) inputs.push_back(Spread(input, shape));
    ExpectSame(RunNode(sample.node, inputs)[0], whole);
    for (Value& input : inputs) input = Turned(input);
    ExpectSame(RunNode(sample.node, inputs)[0], Turned(whole));
    return true;
  });
}

TEST_F(Traits, MovedElementsMayBeOfAnyType) {
  ForEachWith([](const Operator& op) { return op.moves_elements; },
              [](const Operator&, const Sample& sample) {
                std::vector<Value> bits = sample.inputs;
                const Tensor& x = sample.inputs[0].tensor();
                if (x.dtype() != DType::kFloat) return false;
                // Patterns that arithmetic would not leave as they are, all of them different.
                Tensor patterns(DType::kInt32, x.shape());
                std::set<int32_t> all;
                for (int64_t i = 0; i < x.size(); ++i)
                  all.insert(patterns.MutableData<int32_t>()[i] = static_cast<int32_t>(0x7f800001 + i));
                bits[0] = patterns;
                std::vector<Value> as_ints = RunNode(sample.node, bits);
                bits[0] = patterns.ViewedAs(DType::kFloat);
                std::vector<Value> as_floats = RunNode(sample.node, bits);
                EXPECT_EQ(as_ints.size(), as_floats.size());
                for (size_t i = 0; i < as_ints.size(); ++i)
                  EXPECT_TRUE(Identical(as_ints[i].tensor(), as_floats[i].tensor().ViewedAs(DType::kInt32)));
                for (int32_t pattern : as_ints[0].tensor().Span<int32_t>()) EXPECT_TRUE(all.count(pattern)) << pattern;
                return true;
              });
}

// Bytes from a place where C++ reads no float.
TEST_F(Traits, MovesReadFromAnyByte) {
  auto has = [](const Operator& op) { return op.moves_elements && op.reads_anywhere != 0; };
  ForEachWith(has, [](const Operator& op, const Sample& sample) {
    std::vector<Value> inputs = sample.inputs;
    std::vector<std::vector<std::byte>> held;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Includes(op.reads_anywhere, i)) continue;
      const Tensor& x = sample.inputs[i].tensor();
      held.emplace_back(x.bytes() + 1);
      std::memcpy(held.back().data() + 1, x.raw(), x.bytes());
      inputs[i] = Tensor::Borrow(x.dtype(), x.shape(), held.back().data() + 1);
    }
    ExpectSame(RunNode(sample.node, inputs)[0], RunNode(sample.node, sample.inputs)[0]);
    return !held.empty();
  });
}

TEST_F(Traits, ViewsHaveTheSameElements) {
  ForEachWith([](const Operator& op) { return op.is_view; },
              [](const Operator&, const Sample& sample) {
                const Tensor& x = sample.inputs[0].tensor();
                Value y = RunNode(sample.node, sample.inputs)[0];
                ExpectSame(y.tensor().Reshaped(x.shape()), x);
                EXPECT_EQ(y.tensor().raw(), x.raw()) << "nothing is copied";
                return true;
              });
}

TEST_F(Traits, ImagesAreTreatedOneByOne) {
  ForEachWith([](const Operator& op) { return op.per_image; },
              [](const Operator&, const Sample& sample) {
                std::vector<Value> batch = RunNode(sample.node, sample.inputs);
                const Tensor& images = sample.inputs[0].tensor();
                for (int64_t image = 0; image < images.dim(0); ++image) {
                  std::vector<Value> inputs = sample.inputs;
                  for (Value& input : inputs) {
                    const Tensor whole = input.tensor();
                    if (whole.rank() == images.rank() && whole.dim(0) == images.dim(0)) input = whole.Rows(image, 1);
                  }
                  std::vector<Value> one = RunNode(sample.node, inputs);
                  EXPECT_EQ(one.size(), batch.size());
                  for (size_t i = 0; i < one.size(); ++i) ExpectSame(one[i], batch[i].tensor().Rows(image, 1));
                }
                return true;
              });
}

// Every input that the engine may hand out as the output's memory (ProgramBuilder::ShareInPlace).
TEST_F(Traits, ResultsMayTakeTheMemoryOfInputs) {
  std::set<std::pair<const Operator*, size_t>> tried;
  ForEachWith([](const Operator& op) { return op.in_place != 0; },
              [&](const Operator& op, const Sample& sample) {
                const Tensor expected = RunNode(sample.node, sample.inputs)[0].tensor();
                for (size_t i = 0; i < sample.inputs.size(); ++i) {
                  const Tensor& from = sample.inputs[i].tensor();
                  if (!Includes(op.in_place, i) || !(from.shape() == expected.shape()) ||
                      BitWidth(from.dtype()) != BitWidth(expected.dtype()))
                    continue;
                  std::vector<Value> inputs = sample.inputs;
                  Tensor memory = from.Clone();
                  inputs[i] = memory;
                  std::vector<const Value*> pointers;
                  for (const Value& input : inputs) pointers.push_back(&input);
                  Value out = Tensor(expected.dtype(), expected.shape(), memory.buffer());
                  std::vector<Value*> outputs = {&out};
                  outputs.resize(sample.node.outputs.size());
                  RunServices services;
                  OpContext context(sample.node, pointers, outputs, services);
                  op.compute(context);
                  EXPECT_EQ(out.tensor().raw(), memory.raw());
                  ExpectSame(out, expected);
                  tried.insert({&op, i});
                }
                return true;
              });
  for (const Operator* op : AllOperators())
    for (size_t i = 0; i < 32; ++i)
      if (Includes(op->in_place, i)) {
        EXPECT_TRUE(tried.count({op, i})) << op->name << ": no sample has an input " << i << " of the result's size";
      }
}

}  // namespace
}  // namespace ferry
