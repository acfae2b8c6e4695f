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

// One product, the answers of which go through `more`.
Model Product(const std::vector<Node>& more = {}, std::vector<StoredTensor> constants = {},
              const ValueInfo& y = MakeInfo("y", DType::kFloat, {Dim::Named("n"), 10})) {
  std::vector<Node> nodes = {MakeNode("MatMul", {"x", "w"}, {more.empty() ? "y" : "a"})};
  nodes.insert(nodes.end(), more.begin(), more.end());
  constants.push_back(MakeStored("w", Noise({32, 10}, 1)));
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 32})}, nodes, {y}, constants, 17);
}

QuantizeOptions Wishing(QuantizeOptions options, const char* wish) {
  options.budget = ParseBudget(wish);
  return options;
}

TEST_F(Quantize, WholeNumbersAreComparedOneByOne) {
  const Model model =
      Product({MakeNode("ArgMax", {"a"}, {"y"}, {Attribute("axis", int64_t{1}), Attribute("keepdims", int64_t{0})})},
              {}, MakeInfo("y", DType::kInt64, {Dim::Named("n")}));
  const Tensor x = Noise({256, 32}, 9);
  const Tensor names = Session::FromModel(model)->Run(std::vector<NamedValue>{{"x", x}})[0].tensor();
  const QuantizeOptions options = With(Data({{"x", x}, {"labels", names}}), QuantizeForm::kStatic);
  const QuantizeReport none = QuantizeModel(model, Wishing(options, "agree=0%")).report;
  EXPECT_TRUE(none.holds && none.is_float);
  EXPECT_EQ(none.proof.rows, 64);
  const QuantizeReport some = QuantizeModel(model, Wishing(options, "agree=10%")).report;
  EXPECT_TRUE(some.holds && some.assured);
  EXPECT_LT(some.assured->agree, some.proof.agree - 3);  // of 64 rows
  EXPECT_EQ(*QuantizeModel(model, Wishing(options, "top1=20%")).report.proof.float_top1, 100);
  EXPECT_THAT(MessageOf(model, Wishing(options, "snr=30")), HasSubstr("what can be: top1, agree"));
}

TEST_F(Quantize, BudgetsThatNothingMeasuresAreRefused) {
  const Model model = Product({MakeNode("ReduceMean", {"a"}, {"y"}, {Attribute("axes", std::vector<int64_t>{1})})}, {},
                              MakeInfo("y", DType::kFloat, {Dim::Named("n"), 1}));
  QuantizeOptions options = With(Data({{"x", Noise({64, 32}, 9)}, {"labels", Tensor::Zeros(DType::kInt64, {64})}}));
  EXPECT_THAT(MessageOf(model, Wishing(options, "agree=1%")), HasSubstr("what can be: cosine, max-rel, snr"));
  EXPECT_THAT(MessageOf(model, Wishing(options, "top1=1%")), HasSubstr("fit no output"));
  EXPECT_EQ(QuantizeModel(model, options).report.proof.rows, 0);
  // Labels are looked for where the proof is.
  options.test = {Data({{"x", Noise({16, 32}, 9)}}, "test.npz")};
  EXPECT_THAT(MessageOf(Product(), Wishing(options, "top1=1%")), HasSubstr("no array 'labels'"));
  options = With(Data({{"x", Noise({64, 32}, 9)}, {"labels", Tensor::Zeros(DType::kFloat, {64})}}));
  EXPECT_THAT(MessageOf(Product(), Wishing(options, "top1=1%")), HasSubstr("'labels' are float"));
}

TEST_F(Quantize, InfiniteAnswersAreNoNoise) {
  const Model model = Product({MakeNode("Add", {"a", "mask"}, {"y"})}, {[] {
                                Tensor mask = Tensor::Zeros(DType::kFloat, {10});
                                mask.MutableData<float>()[3] = -INFINITY;
                                return MakeStored("mask", mask);
                              }()});
  const QuantizeReport report = QuantizeModel(model, With(Data({{"x", Noise({64, 32}, 9)}}))).report;
  EXPECT_TRUE(report.proof.finite);
  EXPECT_GT(report.proof.snr, 30);
  EXPECT_LT(report.proof.snr, 60);
  OutputEvidence evidence;
  const Tensor one = Tensor::FromVector(std::vector<float>{1, 2, INFINITY}),
               other = Tensor::FromVector(std::vector<float>{1, 2, 3});
  EXPECT_TRUE(evidence.Add(one, one, 1).finite);
  EXPECT_FALSE(evidence.Add(one, other, 1).finite);
  EXPECT_FALSE(evidence.Add(other, one, 1).finite);
  AnswerSums unknown;
  unknown.signal = 1, unknown.noise = NAN;
  EXPECT_LT(unknown.snr(), 0);
}

// Every fourth row is kept, whatever comes in batches; of too few rows nothing is promised.
TEST_F(Quantize, RowsAreKeptForTheProof) {
  const Model model = Product();
  for (const auto& [rows, kept] :
       std::map<int64_t, int64_t>{{1, 1}, {7, 7}, {8, 2}, {16, 4}, {17, 4}, {33, 8}, {64, 16}, {100, 25}}) {
    const QuantizeReport report =
        QuantizeModel(model, Wishing(With(Data({{"x", Noise({rows, 32}, 9)}})), "snr=20")).report;
    EXPECT_EQ(report.proof_samples, kept) << rows;
    EXPECT_EQ(report.samples, rows < 8 ? rows : rows - kept) << rows;
    EXPECT_EQ(report.proof_is_apart, rows >= 8) << rows;
    EXPECT_TRUE(report.holds) << rows;
    EXPECT_EQ(report.assured.has_value(), kept >= 8) << rows;
    EXPECT_EQ(ToText(report).find("19 times") != std::string::npos, kept >= 8) << rows;
    EXPECT_EQ(ToText(report).find("give more samples") == std::string::npos, kept >= 8) << rows;
  }
}

// The largest difference takes a tail to be foretold.
TEST_F(Quantize, LargestDifferencesTakeMoreRows) {
  for (int64_t rows : {124, 128}) {
    const QuantizeOptions options = With(Data({{"x", Noise({rows, 32}, 9)}}));
    EXPECT_EQ(QuantizeModel(Product(), Wishing(options, "max-rel=0.2")).report.assured.has_value(), rows == 128);
  }
}

// A sum over all rows of a run is one answer.
TEST_F(Quantize, AnswersOfWholeRunsAreFew) {
  const Model model = Product({MakeNode("Transpose", {"a"}, {"y"}, {Attribute("perm", std::vector<int64_t>{1, 0})})},
                              {}, MakeInfo("y", DType::kFloat, {10, Dim::Named("n")}));
  const QuantizeReport report =
      QuantizeModel(model, Wishing(With(Data({{"x", Noise({256, 32}, 9)}})), "snr=20")).report;
  EXPECT_EQ(report.proof_samples, 64);
  EXPECT_TRUE(report.holds);
  EXPECT_FALSE(report.assured.has_value());
  EXPECT_THAT(ToText(report), HasSubstr("the proof has 4 answers"));
}

// The proof's labels are the float model's, the other labels what eight bits say: choosing sees no loss at all.
TEST_F(Quantize, LiftsGoOnWhereChoosingSeesNoLoss) {
  const Model model = Product();
  const Tensor x = Noise({2048, 32}, 9);
  QuantizeOptions options = With(Data({{"x", x}}), QuantizeForm::kStatic);
  auto answers = [&](const Model& of) {
    return Session::FromModel(of)->Run(std::vector<NamedValue>{{"x", x}})[0].tensor();
  };
  const Tensor before = answers(model), after = answers(QuantizeModel(model, options).model);
  Tensor labels(DType::kInt64, {2048});
  for (int64_t i = 0; i < 2048; ++i) {
    const float* row = (i % 64 < 48 ? after : before).Data<float>() + i * 10;
    labels.MutableData<int64_t>()[i] = std::max_element(row, row + 10) - row;
  }
  options.data = {Data({{"x", x}, {"labels", labels}}, "labelled.npz")};
  const QuantizeReport report = QuantizeModel(model, Wishing(options, "top1=0.05%")).report;
  EXPECT_TRUE(report.holds);
  EXPECT_LT(report.layers[0].way, Way::kStatic);
}

// What the rows of the proof lose does not speak for those that were used to choose.
TEST_F(Quantize, ChoosingMustHoldToo) {
  const Model model = Product();
  QuantizeOptions options = Wishing(With(Data({{"x", Noise({64, 32}, 9)}}), QuantizeForm::kWeights), "snr=30");
  options.most_bytes = 1;  // nothing can be lifted
  options.test = {Data({{"x", Tensor::Zeros(DType::kFloat, {64, 32})}}, "zeros.npz")};
  EXPECT_FALSE(QuantizeModel(model, options).report.holds);
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
  // How close answers are, rows that were used to choose tell as well.
  const double alone = few.FlipRate(1.645) / few.FlipRate(0);
  few.TakeLeads(many);
  EXPECT_LT(few.FlipRate(1.645) / few.FlipRate(0), 0.9 * alone);
  EXPECT_NEAR(few.FlipRate(0), many.FlipRate(0), 0.2 * many.FlipRate(0));
}

// A few rows that are far worse than the others foretell worse ones.
TEST_F(Quantize, HeavyTailsReachFurther) {
  OutputEvidence even, wild;
  const Tensor expected = Noise({256, 10}, 1), noise = Noise({256, 10}, 2, 0.01f);
  for (OutputEvidence* evidence : {&even, &wild}) {
    Tensor actual = expected.Clone();
    for (int64_t i = 0; i < actual.size(); ++i) {
      const float size = evidence == &wild && i / 10 % 64 == 7 ? 3.0f * static_cast<float>(i / 640 + 1) : 1.0f;
      actual.MutableData<float>()[i] += size * noise.Data<float>()[i];
    }
    evidence->Add(actual, expected, 256);
  }
  const double seen = wild.total().difference / wild.total().largest;
  EXPECT_GT(wild.LargestPart(1.645), 3 * seen);
  EXPECT_LT(even.LargestPart(1.645), 2.5 * even.total().difference / even.total().largest);
}

// What is said of four times the rows is true 19 times in 20, of tails from normal to nearly wild.
TEST_F(Quantize, LargestDifferencesAreForetold) {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  const std::function<double(double)> kinds[] = {[](double x) { return std::abs(x); }, [](double x) { return x * x; },
                                                 [](double x) { return std::exp(0.5 * x); }};
  for (const auto& kind : kinds)
    for (int64_t rows : {16, 64, 256}) {
      int kept = 0;
      for (int trial = 0; trial < 200; ++trial) {
        const Tensor expected = Tensor::FromVector(std::vector<float>(static_cast<size_t>(rows), 1.0f), {rows, 1});
        Tensor actual = expected.Clone();
        for (int64_t i = 0; i < rows; ++i)
          actual.MutableData<float>()[i] += static_cast<float>(0.01 * kind(normal(engine)));
        double largest = 0;
        for (int64_t i = 0; i < 4 * rows; ++i) largest = std::max(largest, 0.01 * kind(normal(engine)));
        OutputEvidence evidence;
        evidence.Add(actual, expected, rows);
        kept += largest <= evidence.LargestPart(2.05);  // as a first proof asks
      }
      EXPECT_GE(kept, 188) << rows;
    }
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
  const auto cached = MeasureAlone(workshop, judge, RangeMethod::kMinMax, rungs, true);
  const auto whole = MeasureAlone(workshop, judge, RangeMethod::kMinMax, rungs, false);
  ASSERT_EQ(cached.size(), 4u);
  for (size_t i = 0; i < cached.size(); ++i) {
    ASSERT_EQ(cached[i].size(), whole[i].size());
    ASSERT_GE(cached[i].size(), 3u);  // static, some other way, float
    EXPECT_LT(cached[i][0].noise, 0.01);
    EXPECT_EQ(cached[i].back().noise, 0);
    for (size_t k = 0; k < cached[i].size(); ++k)
      EXPECT_NEAR(cached[i][k].noise, whole[i][k].noise, 0.012 * whole[i][k].noise) << workshop.layers()[i].name;
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
  options.budget = ParseBudget("snr=60");
  EXPECT_EQ(QuantizeModel(model, options).report.form, "int8");
}

// One layer's weights have outliers that meet nothing: only it is lifted, and its corrected bias is kept in few bits.
TEST_F(Quantize, OnlyTheLayerThatCostsIsLifted) {
  Tensor spoilt = Noise({256, 256}, 2, 0.1f);
  for (int64_t i = 0; i < 256; ++i) spoilt.MutableData<float>()[i] = 60;  // of the first input, which is always zero
  Tensor first = Noise({64, 256}, 1);
  for (int64_t i = 0; i < 64; ++i) first.MutableData<float>()[i * 256] = 0;
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 64})},
      {MakeNode("MatMul", {"x", "u"}, {"a"}), MakeNode("Relu", {"a"}, {"b"}), MakeNode("MatMul", {"b", "v"}, {"c"}),
       MakeNode("Relu", {"c"}, {"d"}), MakeNode("MatMul", {"d", "w"}, {"e"}), MakeNode("Add", {"e", "bias"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 128})},
      {MakeStored("u", first), MakeStored("v", spoilt), MakeStored("w", Noise({256, 128}, 3)),
       MakeStored("bias", Noise({128}, 4))},
      17);
  QuantizeOptions options = With(Data({{"x", Noise({128, 64}, 9)}}));
  options.weights = WeightMethod::kNearest;
  options.budget = ParseBudget("snr=30");
  const QuantizedModel made = QuantizeModel(model, options);
  EXPECT_TRUE(made.report.holds);
  ASSERT_EQ(made.report.layers.size(), 3u);
  EXPECT_GE(made.report.layers[0].way, Way::kDynamic);
  EXPECT_LT(made.report.layers[1].way, Way::kDynamic);
  EXPECT_GE(made.report.layers[2].way, Way::kDynamic);
  EXPECT_LT(*made.report.layers[1].alone, *made.report.layers[0].alone - 6);
  int64_t halves = 0;
  for (const StoredTensor& stored : made.model.graph.initializers)
    halves += stored.dtype == DType::kFloat16 && stored.tensor.size() == 128;
  EXPECT_EQ(halves, 1);
  // Of answers that are whole numbers the part that changes says which layer that is.
  Model names = model;
  names.graph.nodes.push_back(MakeNode("ArgMax", {"y"}, {"k"}, {Attribute("axis", int64_t{1})}));
  names.graph.outputs = {MakeInfo("k", DType::kInt64, {Dim::Named("n"), 1})};
  options.data = {Data({{"x", Noise({512, 64}, 9)}}, "more.npz")};
  options.budget = ParseBudget("agree=10%");
  const QuantizeReport named = QuantizeModel(names, options).report;
  EXPECT_TRUE(named.holds && !named.is_float);
  EXPECT_GE(named.layers[0].way, Way::kDynamic);
  EXPECT_LT(named.layers[1].way, Way::kDynamic);
  EXPECT_GE(named.layers[2].way, Way::kDynamic);
}

// Four bits that are lifted are said to be, and stay where no answers need be kept.
TEST_F(Quantize, LiftedBitsAreSaid) {
  QuantizeOptions options = With(Data({{"x", Noise({64, 32}, 9)}}), QuantizeForm::kWeights);
  const QuantizeReport lifted = QuantizeModel(Product(), options).report;
  EXPECT_GT(lifted.proof.snr, 24);
  EXPECT_THAT(ToText(lifted), HasSubstr("layers were lifted to reach 24 dB"));
  options.least_snr = 0, options.keep_rows = false;
  const QuantizeReport kept = QuantizeModel(Product(), options).report;
  EXPECT_LT(kept.proof.snr, 24);
  EXPECT_LT(kept.bytes_after, lifted.bytes_after);
  EXPECT_EQ(kept.samples, 64);
  EXPECT_FALSE(kept.proof_is_apart);
}

TEST_F(Quantize, BudgetsAreParsed) {
  EXPECT_EQ(ToText(ParseBudget("top1=0.5%")), "top1=0.5%");
  EXPECT_EQ(ParseBudget("max-rel=1%").limit, 0.01);
  for (const char* wrong : {"", "top1", "cosine=2", "snr=x", "best=1", "cosine=", "max-rel=-1", "snr=nan"})
    EXPECT_THROW(ParseBudget(wrong), Error) << wrong;
}

}  // namespace
}  // namespace ferry::quantize
