// Where runs come one after the other, packed weights take the place of those in a file in memory: nobody sees it but
// by the memory, whatever shapes come later.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/memory_files.h"
#include "engine/session.h"
#include "onnx/writer.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

constexpr const char* kPath = "/packed-in-place/model.onnx";

// A model in a file in memory, whose bytes can be looked at.
class InMemory {
 public:
  // `shift` moves all weights by as many bytes: they may begin at any.
  InMemory(Model model, size_t shift) {
    model.producer_name = std::string(shift, 'x');
    text_ = SerializeModel(model);
    data_ = static_cast<std::byte*>(std::malloc(text_.size()));
    std::memcpy(data_, text_.data(), text_.size());
    PutMemoryFile(kPath, data_, text_.size());
  }
  ~InMemory() { RemoveMemoryFile(kPath); }

  std::shared_ptr<Session> Open(bool keep_path = false) const {
    auto session = Session::Open(kPath, {.threads = 2, .packs_in_place = true});
    if (!keep_path) RemoveMemoryFile(kPath);
    return session;
  }
  // While a session holds it.
  bool IsAsItWas() const { return std::memcmp(data_, text_.data(), text_.size()) == 0; }

 private:
  std::string text_;
  std::byte* data_;
};

std::vector<Value> Answers(const Session& session, const Tensor& x) {
  const std::vector<NamedValue> inputs = {{"x", x}};
  return session.Run(inputs);
}

// Convolutions of both sizes, products with a matrix and its transpose.
Model Network(Random& random) {
  return MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 24, Dim::Named("height"), 9})},
      {MakeNode("Conv", {"x", "pointwise"}, {"a"}),
       MakeNode("Conv", {"a", "strided"}, {"b"}, {{"strides", std::vector<int64_t>{2, 2}}}),
       MakeNode("GlobalAveragePool", {"b"}, {"c"}), MakeNode("Flatten", {"c"}, {"d"}),
       MakeNode("MatMul", {"d", "matrix"}, {"e"}), MakeNode("Gemm", {"e", "turned"}, {"y"}, {{"transB", int64_t{1}}})},
      {MakeInfo("y")},
      {MakeStored("pointwise", random.Floats({48, 24, 1, 1})), MakeStored("strided", random.Floats({64, 48, 3, 3})),
       MakeStored("matrix", random.Floats({64, 160})), MakeStored("turned", random.Floats({100, 160}))});
}

Tensor Picture(Random& random, int64_t batch, int64_t height) { return random.Floats({batch, 24, height, 9}); }

TEST(PackedInPlace, WeightsAreReplacedWhileOneProgramServes) {
  Random random(1);
  const Model model = Network(random);
  const Tensor x = Picture(random, 1, 9), taller = Picture(random, 3, 13);
  auto usual = Session::FromModel(model, {.threads = 2});
  for (size_t shift = 0; shift < 5; ++shift) {
    const InMemory file(model, shift);
    auto session = file.Open();
    for (int run = 0; run < 3; ++run) {
      EXPECT_TRUE(Identical(Answers(*session, x)[0].tensor(), Answers(*usual, x)[0].tensor())) << "run " << run;
      EXPECT_EQ(file.IsAsItWas(), run == 0);
    }
    for (const Tensor& next : {taller, x, taller})
      EXPECT_TRUE(Identical(Answers(*session, next)[0].tensor(), Answers(*usual, next)[0].tensor()))
          << Cat(next.shape());
    EXPECT_TRUE(file.IsAsItWas()) << "other shapes read the weights as they were, shifted by " << shift;
  }
}

TEST(PackedInPlace, OtherValuesAreMadeOfTheWeightsAsTheyWere) {
  Random random(2);
  const Model model = Network(random);
  const InMemory file(model, 1);
  auto session = file.Open();
  const std::vector<NamedValue> inputs = {{"x", Picture(random, 1, 9)}};
  for (int run = 0; run < 3; ++run) session->Run(inputs);
  const std::vector<std::string> inner = {"a", "e"};
  auto expected = Session::FromModel(model)->Run(inputs, inner), got = session->Run(inputs, inner);
  for (size_t i = 0; i < inner.size(); ++i) EXPECT_TRUE(Identical(got[i].tensor(), expected[i].tensor())) << inner[i];
}

TEST(PackedInPlace, FilesOfOthersStayAsTheyAre) {
  Random random(3);
  const Model model = Network(random);
  const InMemory file(model, 0);
  auto session = file.Open(true);
  const Tensor x = Picture(random, 1, 9);
  for (int run = 0; run < 3; ++run) Answers(*session, x);
  EXPECT_TRUE(file.IsAsItWas()) << "whoever opens the path next gets the model";
}

// The second reader wants the elements in their own order at every run.
TEST(PackedInPlace, WeightsThatOthersReadStayAsTheyAre) {
  Random random(4);
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("rows"), 64})},
      {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("ReduceMean", {"p"}, {"m"}), MakeNode("Add", {"w", "m"}, {"y"})},
      {MakeInfo("y")}, {MakeStored("w", random.Floats({64, 320}))});
  const InMemory file(model, 2);
  auto session = file.Open();
  auto usual = Session::FromModel(model);
  const Tensor x = random.Floats({5, 64});
  for (int run = 0; run < 3; ++run)
    EXPECT_TRUE(Identical(Answers(*session, x)[0].tensor(), Answers(*usual, x)[0].tensor())) << "run " << run;
  EXPECT_TRUE(file.IsAsItWas());
}

}  // namespace
}  // namespace ferry
