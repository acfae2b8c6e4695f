// Budgets: what is assured on other samples, which layers pay for it, and what is said where none can.
#include <numeric>

#include "convert/quantize/search.h"
#include "tests/convert/quantize_support.h"

namespace ferry::quantize {
namespace {

TEST_F(Quantize, BudgetHoldsOrTheAnswerIsNo) {
  const std::string data = Data({{"x", Noise({64, 3, 8, 8}, 9)}});
  QuantizeOptions options = With(data);
  options.budget = ParseBudget("snr=45");
  const QuantizedModel made = QuantizeModel(ConvNet(), options);
  EXPECT_TRUE(made.report.holds);
  EXPECT_GE(made.report.proof.snr, 45);
  EXPECT_LT(made.report.bytes_after, made.report.bytes_before);
  options.budget = ParseBudget("max-rel=0");
  options.conventions.weights_only = false;
  options.keep = {"Conv_c1"};
  EXPECT_TRUE(QuantizeModel(ConvNet(), options).report.holds);  // everything is float again
  options.budget = ParseBudget("top1=0.5%");
  EXPECT_THROW(QuantizeModel(ConvNet(), options), Error);  // there are no labels
  options.test = {Data({{"x", Noise({8, 3, 8, 8}, 10)}, {"labels", Tensor::Zeros(DType::kInt64, {8})}}, "test.npz")};
  options.budget = ParseBudget("top1=50%");
  EXPECT_TRUE(QuantizeModel(ConvNet(), options).report.proof.top1.has_value());  // they are in the proof alone
}

// Each kind of budget, on samples that were neither calibrated with nor used for the proof.
TEST_F(Quantize, BudgetsHoldOnOtherSamples) {
  const Model model = ConvNet();
  const Tensor x = Noise({192, 3, 8, 8}, 9), unseen = Noise({400, 3, 8, 8}, 77);
  const auto labels_of = [&](const Tensor& rows) {
    const Tensor answers = Session::FromModel(model)->Run(std::vector<NamedValue>{{"x", rows}})[0].tensor();
    Tensor labels(DType::kInt64, {rows.dim(0)});
    for (int64_t i = 0; i < rows.dim(0); ++i) {
      const float* row = answers.Data<float>() + i * 5;
      labels.MutableData<int64_t>()[i] = i % 10 == 0 ? 0 : std::max_element(row, row + 5) - row;
    }
    return labels;
  };
  const std::string data = Data({{"x", x}, {"labels", labels_of(x)}});
  const std::string fresh = Data({{"x", unseen}, {"labels", labels_of(unseen)}}, "unseen.npz");
  for (const char* wish : {"top1=1%", "agree=1%", "cosine=0.9999", "max-rel=0.02", "snr=42"}) {
    QuantizeOptions options = With(data);
    options.budget = ParseBudget(wish);
    const QuantizedModel made = QuantizeModel(model, options);
    EXPECT_TRUE(made.report.holds) << wish;
    ASSERT_TRUE(made.report.assured.has_value());
    EXPECT_TRUE(Holds(*options.budget, *made.report.assured)) << wish;
    const std::shared_ptr<Session> original = Session::FromModel(model);
    const Samples samples({fresh}, *original, 16);
    std::vector<size_t> all(samples.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const Faithfulness found = Judge(original, samples, all).Compare(*Session::FromModel(made.model));
    EXPECT_TRUE(Holds(*options.budget, found)) << wish << ": " << MeasuredText(*options.budget, found);
  }
}

// What cannot be held is said, and the nearest is handed over.
TEST_F(Quantize, NearestIsHandedOverWhereABudgetCannotHold) {
  QuantizeOptions options = With(Data({{"x", Noise({64, 3, 8, 8}, 9)}}), QuantizeForm::kFloat16);
  options.budget = ParseBudget("snr=100");
  const QuantizedModel made = QuantizeModel(ConvNet(), options);
  EXPECT_FALSE(made.report.holds);
  EXPECT_GT(made.report.proof.snr, 50);
  EXPECT_THAT(ToText(made.report), HasSubstr("does not hold"));
}

// Confidence is paid for: fewer samples assure less, and nothing is assured beyond what was seen.
TEST_F(Quantize, FewerSamplesAssureLess) {
  OutputEvidence few, many;
  const Tensor expected = Noise({256, 10}, 1);
  Tensor actual = expected.Clone();
  const Tensor noise = Noise({256, 10}, 2, 0.02f);
  for (int64_t i = 0; i < actual.size(); ++i) actual.MutableData<float>()[i] += noise.Data<float>()[i];
  few.Add(actual.Rows(0, 16), expected.Rows(0, 16), 16);
  many.Add(actual, expected, 256);
  EXPECT_GT(few.NoiseRatio(1.645) - few.NoiseRatio(0), many.NoiseRatio(1.645) - many.NoiseRatio(0));
  EXPECT_NEAR(many.NoiseRatio(0), 4e-4, 1e-4);
  EXPECT_GE(many.LargestPart(1.645), many.total().difference / many.total().largest);
  // Leads of ten normal numbers lie at a density of about 1.5 near zero; the noise between two has 0.028.
  EXPECT_NEAR(many.FlipRate(0), 1.5 * 0.028 / 2.5, 0.008);
  EXPECT_GT(many.FlipRate(1.645), many.FlipRate(0));
}

// Runs that start at the layer say the same of it as runs of the whole model.
TEST_F(Quantize, LayersAreMeasuredFromWhereTheyStand) {
  Model model = ConvNet();
  model.graph.outputs.push_back(MakeInfo("r1", DType::kFloat, {Dim::Named("n"), 8, 8, 8}));  // made before most layers
  const QuantizeOptions options = With(Data({{"x", Noise({32, 3, 8, 8}, 9)}}), QuantizeForm::kStatic);
  Workshop workshop(MakeBase(model), 17, options);
  const std::shared_ptr<Session> original = Session::FromModel(workshop.base());
  const Samples samples(options.data, *original, 16);
  workshop.Calibrate(samples, {0, 1}, false);
  const Judge judge(original, samples, {0, 1});
  const std::vector<Rung> rungs(workshop.layers().size(), Rung{Way::kStatic, 8, 0});
  const std::vector<double> cached = MeasureAlone(workshop, judge, RangeMethod::kMinMax, rungs, true);
  const std::vector<double> whole = MeasureAlone(workshop, judge, RangeMethod::kMinMax, rungs, false);
  ASSERT_EQ(cached.size(), 4u);
  for (size_t i = 0; i < cached.size(); ++i) {
    EXPECT_NEAR(cached[i], whole[i], 0.05) << workshop.layers()[i].name;
    EXPECT_GT(cached[i], 20);
  }
}

// 4 bits where the budget bears them, and only then.
TEST_F(Quantize, SmallestFormThatHoldsIsTaken) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 256})},
      {MakeNode("MatMul", {"x", "w"}, {"h"}), MakeNode("Relu", {"h"}, {"r"}), MakeNode("MatMul", {"r", "v"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 64})},
      {MakeStored("w", Noise({256, 512}, 1)), MakeStored("v", Noise({512, 64}, 2))}, 17);
  QuantizeOptions options = With(Data({{"x", Noise({128, 256}, 9)}}));
  options.budget = ParseBudget("snr=12");
  const size_t eight = QuantizeModel(model, options).report.bytes_after;
  options.smallest = true;
  const QuantizeReport loose = QuantizeModel(model, options).report;
  if (loose.form == "weights, 4 bits") {
    EXPECT_LT(loose.bytes_after, eight * 6 / 10);
  } else {
    EXPECT_EQ(loose.bytes_after, eight);  // 4 bits were slower than float32 here
  }
  EXPECT_TRUE(loose.holds);
  options.budget = ParseBudget("snr=38");
  EXPECT_EQ(QuantizeModel(model, options).report.form, "int8");
}

TEST_F(Quantize, BudgetsAreParsed) {
  EXPECT_EQ(ToText(ParseBudget("top1=0.5%")), "top1=0.5%");
  EXPECT_EQ(ParseBudget("max-rel=1%").limit, 0.01);
  for (const char* wrong : {"", "top1", "cosine=2", "snr=x", "best=1", "cosine=", "max-rel=-1", "snr=nan"})
    EXPECT_THROW(ParseBudget(wrong), Error) << wrong;
}

}  // namespace
}  // namespace ferry::quantize
