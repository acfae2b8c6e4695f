#include "engine/session.h"
#include "tests/passes/qdq_graphs.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

TEST(FuseDynamicMatMul, TakesScalesAndBias) {
  for (bool per_column : {false, true})
    for (bool has_bias : {false, true})
      for (bool is_signed : {false, true}) {
        QdqBuilder b(21);
        int64_t depth = 37, columns = 20;
        Shape each = per_column ? Shape{columns} : Shape{};
        b.nodes.push_back(MakeNode("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"}));
        Tensor w = is_signed ? b.random.Numbers<int8_t>({depth, columns}) : b.random.Numbers<uint8_t>({depth, columns});
        Tensor zero = is_signed ? b.random.Numbers<int8_t>(each) : b.random.Numbers<uint8_t>(each);
        std::string scale = b.Add("Mul", {"s", b.Constant(b.random.Floats(each))});
        std::string y = b.Add("MatMulInteger", {"q", b.Constant(w), "z", b.Constant(zero)});
        y = b.Add("Mul", {b.Add("Cast", {y}, {Attribute("to", int64_t{1})}), scale});
        if (has_bias) y = b.Add("Add", {b.Constant(b.random.Floats({columns})), y});
        b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
        Model model = b.Finish({MakeInfo("x", DType::kFloat, {2, Dim::Named("n"), depth})}, {MakeInfo("y")});
        Tensor x = b.random.Floats({2, 5, depth});
        Graph graph = CopyDeep(model).graph;
        Optimize(graph);
        EXPECT_EQ(Count(graph, "DynamicMatMul"), 1);
        EXPECT_EQ(Count(graph, "Cast") + Count(graph, "Mul") + Count(graph, "Add"), 0);
        Tensor expected = EvaluateGraph(model.graph, std::vector<Value>{Value(x)}, RunServices{})[0].tensor();
        Tensor plain = EvaluateGraph(graph, std::vector<Value>{Value(x)}, RunServices{})[0].tensor();
        auto fast = Session::FromModel(model, {.threads = 2})->Run(std::vector<NamedValue>{{"x", x}});
        for (int64_t i = 0; i < expected.size(); ++i) {
          float value = expected.Data<float>()[i], tolerance = 1e-5f * (1 + std::abs(value));
          ASSERT_NEAR(plain.Data<float>()[i], value, tolerance);
          ASSERT_NEAR(fast[0].tensor().Data<float>()[i], value, tolerance);
        }
      }
}

}  // namespace
}  // namespace ferry
