#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/mapped_file.h"
#include "engine/session.h"
#include "tests/torch/script_archive.h"
#include "torch/archive.h"
#include "torch/export.h"
#include "torch/script/parser.h"
#include "torch/script/script_export.h"

namespace ferry::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The body of forward(self, x) of a module M, each line indented by the caller as Python has it inside a method.
std::string Module(const std::string& body, const std::string& before = "") {
  return before + "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n" +
         "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + body;
}

ExportOptions ForVector() {
  ExportOptions options;
  options.input_types = {{"x", DType::kFloat, {Dim::Named("n")}}};
  return options;
}

std::string TestName() {
  return std::string("script_") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
}

Exported Export(const ScriptArchive& archive, const ExportOptions& options = ForVector()) {
  return ExportFile(archive.Write(TestName()), options);
}

std::string ErrorOf(const ScriptArchive& archive, const ExportOptions& options = ForVector()) {
  try {
    Export(archive, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// What forward makes of a vector.
std::vector<float> Forward(const std::string& body, const std::vector<float>& x, const std::string& before = "") {
  Exported exported = Export({.code = Module(body, before)});
  std::shared_ptr<Session> session = Session::FromModel(std::move(exported.model), {.threads = 1});
  std::vector<Value> outputs = session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector(x)}});
  const Tensor& tensor = outputs.at(0).tensor();
  return {tensor.Data<float>(), tensor.Data<float>() + tensor.size()};
}

TEST(Script, ComputesPythonValuesAtExport) {
  EXPECT_THAT(Forward("    a = [1, 2, 3]\n"
                      "    _0 = torch.append(a, 4)\n"
                      "    b = torch.add(a, [5])\n"
                      "    d = {\"k\": torch.len(b), \"l\": torch.sub(7, 2)}\n"
                      "    t = (d[\"k\"], d[\"l\"], b[-1])\n"
                      "    p, q, r, = t\n"
                      "    if torch.__and__(torch.eq(p, 5), torch.gt(q, 4)):\n"
                      "      y = torch.mul(x, r)\n"
                      "    else:\n"
                      "      ops.prim.RaiseException(\"no\")\n"
                      "      y = x\n"
                      "    for i in range(3):\n"
                      "      y = torch.add(y, i)\n"
                      "    return y\n",
                      {1, 2}),
              ElementsAre(8, 13));
}

TEST(Script, CallsFunctionsAndMethods) {
  EXPECT_THAT(Forward("    return (self).twice(__torch__.shifted(x, b=2, ), )\n"
                      "  def twice(self: __torch__.M,\n    y: Tensor) -> Tensor:\n"
                      "    return torch.mul(y, 2)\n",
                      {1, 2}, "def shifted(a: Tensor,\n    b: int=1) -> Tensor:\n  return torch.add(a, b)\n"),
              ElementsAre(6, 8));
}

TEST(Script, SizesStayOpen) {
  std::string body =
      "    n = ops.prim.NumToTensor(torch.size(x, 0))\n"
      "    m = int(torch.mul(n, n))\n"
      "    return torch.add(x, torch.sub(m, 1))\n";
  EXPECT_THAT(Forward(body, {1, 2}), ElementsAre(4, 5));
  EXPECT_THAT(Forward(body, {0, 0, 0}), ElementsAre(8, 8, 8));
}

TEST(Script, BranchesOnData) {
  std::string body =
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      y, k = torch.mul(x, 2), 5\n"
      "    else:\n"
      "      z = torch.neg(x)\n"
      "      y, k = z, 7\n"
      "    return torch.add(y, k)\n";
  EXPECT_THAT(Forward(body, {1, 2}), ElementsAre(7, 9));
  EXPECT_THAT(Forward(body, {-1, -2}), ElementsAre(8, 9));
}

TEST(Script, LoopsWhileDataSays) {
  std::string body =
      "    y, count = x, 0\n"
      "    go = bool(torch.lt(torch.max(y), 10.))\n"
      "    while go:\n"
      "      y0 = torch.mul(y, 2)\n"
      "      count0 = torch.add(count, 1)\n"
      "      go0 = bool(torch.lt(torch.max(y0), 10.))\n"
      "      go, y, count = go0, y0, count0\n"
      "    return torch.add(y, torch.mul(count, 100))\n";
  EXPECT_THAT(Forward(body, {1, 3}), ElementsAre(204, 212));
  EXPECT_THAT(Forward(body, {20, 1}), ElementsAre(20, 1));
}

TEST(Script, LoopsAsOftenAsASizeSays) {
  std::string body =
      "    y = x\n"
      "    for i in range(torch.size(x, 0)):\n"
      "      y0 = torch.add(y, i)\n"
      "      y = y0\n"
      "    return y\n";
  EXPECT_THAT(Forward(body, {1, 2, 3}), ElementsAre(4, 5, 6));
  EXPECT_THAT(Forward(body, {1}), ElementsAre(1));
}

TEST(Script, WritesThroughViews) {
  EXPECT_THAT(Forward("    y = torch.clone(x)\n"
                      "    part = torch.slice(y, 0, 0, 2)\n"
                      "    _0 = torch.mul_(part, 10)\n"
                      "    _1 = torch.add_(y, 1)\n"
                      "    return torch.add(y, torch.sum(part))\n",
                      {1, 2, 3}),
              ElementsAre(43, 53, 36));
}

TEST(Script, RefusesToReadWhatMayHaveBeenWritten) {
  std::string wrong = ErrorOf({.code = Module("    y = torch.clone(x)\n"
                                              "    z = torch.contiguous(y)\n"
                                              "    _0 = torch.add_(z, 1)\n"
                                              "    return torch.add(y, z)\n")});
  EXPECT_THAT(wrong, HasSubstr("may share its elements"));
}

TEST(Script, BranchesOnDataChangeListsAndTensors) {
  std::string grows =
      "    a = annotate(List[int], [])\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      _0 = torch.append(a, 1)\n"
      "    else:\n"
      "      pass\n"
      "    return torch.add(x, torch.len(a))\n";
  EXPECT_THAT(Forward(grows, {1, 2}), ElementsAre(2, 3));
  EXPECT_THAT(Forward(grows, {-1, -2}), ElementsAre(-1, -2));
  std::string writes =
      "    y = torch.clone(x)\n"
      "    z = torch.slice(y, 0, 0, 1)\n"
      "    d = {\"k\": x}\n"
      "    if bool(torch.gt(torch.sum(x), 0)):\n"
      "      _0 = torch.add_(z, 1)\n"
      "      torch._set_item(d, \"k\", torch.neg(x))\n"
      "    else:\n"
      "      pass\n"
      "    return torch.add(torch.mul(y, 10), d[\"k\"])\n";
  EXPECT_THAT(Forward(writes, {1, 2}), ElementsAre(19, 18));
  EXPECT_THAT(Forward(writes, {-1, -2}), ElementsAre(-11, -22));
}

const Node& TheLoop(const Exported& exported) {
  for (const Node& node : exported.model.graph.nodes)
    if (node.op_type == "Loop") return node;
  Fail(ErrorCode::kNotFound, "there is no Loop");
}

TEST(Script, ListsThatGrowInLoopsAreScanOutputsOrSequences) {
  std::string stacks =
      "    a = annotate(List[Tensor], [])\n"
      "    h = torch.zeros([2])\n"
      "    for i in range(torch.size(x, 0)):\n"
      "      h = torch.add(h, torch.select(x, 0, i))\n"
      "      _0 = torch.append(a, h)\n"
      "    return torch.stack(a, 1)\n";
  EXPECT_THAT(Forward(stacks, {1, 2, 3}), ElementsAre(1, 3, 6, 1, 3, 6));
  Exported exported = Export({.code = Module(stacks)});
  EXPECT_EQ(TheLoop(exported).inputs.size(), 3u);
  EXPECT_EQ(TheLoop(exported).outputs.size(), 2u);
  EXPECT_EQ(ToText(exported.model.graph.outputs.at(0).type), "float[2, n]");
  // Pieces of different sizes, and a list that is looked at, are sequences.
  std::string joins =
      "    a = [x]\n"
      "    for i in range(torch.size(x, 0)):\n"
      "      _0 = torch.append(a, torch.slice(a[-1], 0, 1))\n"
      "    return torch.cat(a)\n";
  EXPECT_THAT(Forward(joins, {1, 2, 3}), ElementsAre(1, 2, 3, 2, 3, 3));
  ExportOptions old = ForVector();
  old.opset = 11;
  EXPECT_THAT(ErrorOf({.code = Module(joins)}, old), HasSubstr("opset 13"));
  EXPECT_EQ(ErrorOf({.code = Module(stacks)}, old), "");
}

TEST(Script, SaysWhatToDoAboutListsItCannotGrow) {
  EXPECT_THAT(ErrorOf({.code = Module("    a = annotate(List[Tuple[int, int]], [])\n"
                                      "    for i in range(torch.size(x, 0)):\n"
                                      "      _0 = torch.append(a, (i, i))\n"
                                      "    return x\n")}),
              HasSubstr("trace the program"));
}

TEST(Script, ValuesFirstSetInALoopComeOutOfIt) {
  EXPECT_THAT(Forward("    y = uninitialized(Tensor)\n"
                      "    i = 0\n"
                      "    while bool(torch.lt(i, torch.size(x, 0))):\n"
                      "      y = torch.mul(x, i)\n"
                      "      i = torch.add(i, 1)\n"
                      "    return y\n",
                      {1, 2, 3}),
              ElementsAre(2, 4, 6));
}

// A branch for tensors without elements often gives something of another rank: that of elements stands for both.
TEST(Script, BranchesForNothingGiveWay) {
  std::string body =
      "    y = torch.masked_select(x, torch.gt(x, 0))\n"
      "    if torch.gt(torch.numel(y), 0):\n"
      "      z = torch.reshape(y, [torch.size(y, 0), -1, 1])\n"
      "    else:\n"
      "      z = y\n"
      "    return torch.sum(z, [1, 2])\n";
  EXPECT_THAT(Forward(body, {1, -2, 3}), ElementsAre(1, 3));
  EXPECT_THAT(Forward(body, {-1}), ElementsAre());
}

TEST(Script, AssertionsAboutDataAreLeftOut) {
  EXPECT_THAT(Forward("    if bool(torch.gt(torch.sum(x), 0)):\n"
                      "      pass\n"
                      "    else:\n"
                      "      ops.prim.RaiseException(\"AssertionError: positive\")\n"
                      "    return x\n",
                      {-1}),
              ElementsAre(-1));
  EXPECT_THAT(ErrorOf({.code = Module("    if torch.ne(torch.dim(x), 4):\n"
                                      "      ops.prim.RaiseException(\"four dimensions\")\n"
                                      "    else:\n"
                                      "      pass\n"
                                      "    return x\n")}),
              HasSubstr("four dimensions"));
}

TEST(Script, WeightsKeepTheirNames) {
  Exported exported = Export(
      {.code = Module("    weight = self.weight\n    return torch.add(x, weight)\n"), .weights = {{"weight", {1, 2}}}});
  ASSERT_EQ(exported.model.graph.initializers.size(), 1u);
  EXPECT_EQ(exported.model.graph.initializers[0].name, "weight");
  EXPECT_EQ(exported.model.graph.inputs.at(0).name, "x");
  EXPECT_EQ(exported.model.graph.outputs.at(0).name, "output");
}

// The fused layers that traces in inference mode hold, against the same written out.
TEST(Script, FusedAttentionIsAttention) {
  std::string body =
      "    t = torch.view(x, [1, -1, 2])\n"
      "    w, b = torch.view(self.w, [6, 2]), self.b\n"
      "    o, c = torch.view(self.o, [2, 2]), self.c\n"
      "    mask = torch.view(torch.lt(torch.arange(torch.size(t, 1)), 1), [1, -1])\n"
      "    fused, seen, = torch._native_multi_head_attention(t, t, t, 2, 1, w, b, o, c, mask, True, True, 1)\n"
      "    other, _0, = torch._native_multi_head_attention(t, t, t, 2, 1, w, b, o, c, mask, False, True, 1)\n"
      "    q, k, v, = torch.chunk(torch.linear(t, w, b), 3, -1)\n"
      "    scores = torch.div(torch.matmul(q, torch.transpose(k, 1, 2)), torch.sqrt(2.))\n"
      "    p = torch.softmax(torch.masked_fill(scores, torch.unsqueeze(mask, 1), -inf), -1)\n"
      "    y = torch.linear(torch.matmul(p, v), o, c)\n"
      "    n = torch.layer_norm(torch.add(t, y), [2], c, c, 1.0000000000000001e-05)\n"
      "    f = torch.linear(torch.relu(torch.linear(n, o, c)), o, c)\n"
      "    z = torch.layer_norm(torch.add(n, f), [2], c, c, 1.0000000000000001e-05)\n"
      "    layer = torch._transformer_encoder_layer_fwd(t, 2, 1, w, b, o, c, False, False, 1.0000000000000001e-05, c, "
      "c, "
      "c, c, o, c, o, c, mask, 1)\n"
      "    d = [torch.max(torch.abs(torch.sub(fused, y))), torch.max(torch.abs(torch.sub(other, y))), "
      "torch.max(torch.abs(torch.sub(seen, p))), torch.max(torch.abs(torch.sub(layer, z))), torch.max(torch.abs(z))]\n"
      "    return torch.stack(d, 0)\n";
  Exported exported = Export({.code = Module(body),
                              .weights = {{"w", {.1f, .2f, -.3f, .4f, .5f, -.6f, .7f, .8f, -.9f, 1, 1.1f, 1.2f}},
                                          {"b", {.1f, -.2f, .3f, .4f, .5f, .6f}},
                                          {"o", {1, -.5f, .25f, 2}},
                                          {"c", {.5f, -.75f}}}});
  std::shared_ptr<Session> session = Session::FromModel(std::move(exported.model), {.threads = 1});
  std::vector<Value> outputs =
      session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({1, -2, .5f, 3, -1, .25f})}});
  const float* apart = outputs.at(0).tensor().Data<float>();
  for (int i = 0; i < 4; ++i) EXPECT_LT(apart[i], 1e-6f) << i;
  EXPECT_GT(apart[4], 0.1f);
}

TEST(Script, OldFilesDivideIntegersDown) {
  std::string body =
      "    i = torch.to(x, 4)\n"
      "    return torch.to(torch.div(i, 2), 6)\n";
  ScriptArchive archive{.code = Module(body)};
  for (const char* version : {"3", "4"}) {
    archive.version = version;
    Exported exported = Export(archive);
    std::shared_ptr<Session> session = Session::FromModel(std::move(exported.model), {.threads = 1});
    std::vector<Value> outputs = session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({3})}});
    EXPECT_EQ(*outputs.at(0).tensor().Data<float>(), version[0] == '3' ? 1 : 1.5f);
  }
}

TEST(Script, TrainingModeIsRefusedUnlessAskedFor) {
  ScriptArchive archive{.code = Module("    training = self.training\n    return torch.dropout(x, 0.5, training)\n"),
                        .training = true};
  EXPECT_THAT(ErrorOf(archive), HasSubstr("training"));
  ExportOptions options = ForVector();
  options.training = LowerOptions::Training::kConvert;
  EXPECT_EQ(ErrorOf(archive, options), "");
}

TEST(Script, AsksForTypesOfInputs) {
  EXPECT_THAT(ErrorOf({.code = Module("    return x\n")}, {}), HasSubstr("--input x:"));
  ExportOptions options;
  options.samples = {{{"in0", Tensor(DType::kFloat, {2, 3})}}, {{"in0", Tensor(DType::kFloat, {5, 3})}}};
  Exported exported = Export({.code = Module("    return torch.neg(x)\n")}, options);
  EXPECT_EQ(ToText(exported.model.graph.inputs.at(0).type), "float[batch, 3]");
  options.dynamic = {{"x", 1, "width"}};
  exported = Export({.code = Module("    return torch.neg(x)\n")}, options);
  EXPECT_EQ(ToText(exported.model.graph.outputs.at(0).type), "float[batch, width]");
  options.dynamic = {{"y", 1, "width"}};
  EXPECT_THAT(ErrorOf({.code = Module("    return x\n")}, options), HasSubstr("'y'"));
}

TEST(Script, WrongNamesOfInputsAreNamedWithTheNearest) {
  ExportOptions options;
  options.input_types = {{"img", DType::kFloat, {Dim(2)}}};
  std::string code =
      "class M(Module):\n  training : bool\n  def forward(self: __torch__.M,\n    imgs: Tensor,\n    "
      "size: int) -> Tensor:\n    return imgs\n";
  EXPECT_THAT(ErrorOf({.code = code}, options), HasSubstr("no input 'img'; did you mean 'imgs'?"));
  options.input_types = {{"x", DType::kFloat, {Dim(2)}}, {"xs", DType::kFloat, {Dim(2)}}};
  EXPECT_THAT(ErrorOf({.code = Module("    return x\n")}, options), HasSubstr("did you mean 'x'?"));
}

TEST(Script, ListsAndDictsAreInputsByTheirItems) {
  std::string head = "class M(Module):\n  training : bool\n  def forward(self: __torch__.M,\n    ";
  std::string list = head + "x: List[Tensor]) -> Tensor:\n    return torch.cat(x)\n";
  ExportOptions options;
  options.input_types = {{"x.0", DType::kFloat, {Dim::Named("n")}}, {"x.1", DType::kFloat, {Dim(2)}}};
  Exported exported = Export({.code = list}, options);
  ASSERT_EQ(exported.model.graph.inputs.size(), 2u);
  EXPECT_EQ(exported.model.graph.inputs[1].name, "x.1");
  EXPECT_EQ(Export({.code = list}).model.graph.inputs.size(), 1u);  // a type for x is that of its only item
  std::string dict = head + "x: Dict[str, Tensor]) -> Tensor:\n    return torch.sub(x[\"b\"], x[\"a\"])\n";
  options.input_types = {{"x.a", DType::kFloat, {Dim(2)}}, {"x.b", DType::kFloat, {Dim(2)}}};
  EXPECT_EQ(Export({.code = dict}, options).model.graph.inputs[1].name, "x.b");
  EXPECT_THAT(ErrorOf({.code = dict}, {}), HasSubstr("--input x.KEY:"));
  EXPECT_THAT(ErrorOf({.code = list}, {}), HasSubstr("--input x.0:"));
  ExportOptions python;
  python.is_python = true;
  EXPECT_THAT(ErrorOf({.code = list}, python), HasSubstr("give example inputs as args"));
}

TEST(Script, RandomNumbersAreDrawnWithAWarning) {
  Exported exported = Export({.code = Module("    y = torch.rand_like(x)\n    return torch.add(x, y)\n")});
  ASSERT_EQ(exported.warnings.size(), 1u);
  EXPECT_THAT(exported.warnings[0], HasSubstr("random numbers"));
  EXPECT_TRUE(Export({.code = Module("    y = torch.rand_like(x)\n    return x\n")}).warnings.empty());
}

TEST(Script, NamesWhatHasNoExport) {
  EXPECT_THAT(ErrorOf({.code = Module("    return torch.no_such_function(x)\n")}), HasSubstr("torch.no_such_function"));
  EXPECT_THAT(ErrorOf({.code = Module("    return ops.torchvision.no_such_function(x)\n")}),
              HasSubstr("torchvision.no_such_function"));
  EXPECT_THAT(ErrorOf({.code = Module("    return ops.mine.crop(x)\n")}), HasSubstr("ops.mine.crop"));
}

// --- hostile archives

// What unfolds to more than the pickle states is refused before it is unfolded.
TEST(ScriptHostile, StoragesUnfoldToTheSizesThatAreStated) {
  ScriptArchive archive{.code = Module("    w = self.w\n    return torch.add(x, w)\n"), .weights = {{"w", {1, 2}}}};
  std::vector<ferry::testing::ZipPart> parts = archive.Parts();
  for (ferry::testing::ZipPart& part : parts) {
    part.deflated = true;
    if (part.name == "m/data/0") part.contents.resize(size_t{1} << 20);
  }
  auto export_parts = [&]() -> std::string {
    try {
      ExportArchive(*Archive::Open(ferry::testing::Share(ferry::testing::MakeZip(parts))), ForVector());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(export_parts(), HasSubstr("would unfold to 1048576 bytes"));
  // Text is stated by nothing: an archive as a whole may only unfold so far.
  for (ferry::testing::ZipPart& part : parts)
    if (part.name == "m/data.pkl") part.contents.resize(size_t{100} << 20);
  EXPECT_THAT(export_parts(), HasSubstr("more than the limit"));
}

TEST(ScriptHostile, EndlessProgramsEnd) {
  EXPECT_THAT(ErrorOf({.code = Module("    while True:\n      pass\n    return x\n")}), HasSubstr("steps"));
  EXPECT_THAT(ErrorOf({.code = Module("    return (self).forward(x, )\n")}), HasSubstr("deep"));
  EXPECT_THAT(ErrorOf({.code = Module("    a = [1]\n    while True:\n      a = torch.add(a, a)\n    return x\n")}),
              HasSubstr("steps"));
  EXPECT_THAT(ErrorOf({.code = Module("    a = \"x\"\n    while True:\n      a = torch.add(a, a)\n    return x\n")}),
              HasSubstr("grows"));
  EXPECT_THAT(ErrorOf({.code = Module("    a = torch.mul([0], 9000000000000000000)\n    return x\n")}),
              HasSubstr("steps"));
  EXPECT_THAT(ErrorOf({.code = Module("    a = (1,)\n    while True:\n      a = (a,)\n    return x\n")}),
              HasSubstr("nest"));
  EXPECT_NE(ErrorOf({.code = Module("    a = [[1]]\n    _0 = torch.append(a, a)\n    return x\n")}), "");
  EXPECT_NE(ErrorOf({.code = Module("    a = annotate(List[int], [])\n    b = [a]\n"
                                    "    _0 = torch.append(a, b)\n    return x\n")}),
            "");
}

TEST(ScriptHostile, NothingIsRun) {
  std::string evil = std::string(
                         "\x80\x02"
                         "cos\nsystem\n") +
                     std::string("X\x04\0\0\0true\x85R.", 12);
  EXPECT_THAT(ErrorOf({.code = Module("    return x\n"), .data = evil}), HasSubstr("os.system"));
  EXPECT_THAT(ErrorOf({.code = Module("    return os.system(\"true\")\n")}), HasSubstr("'os'"));
}

TEST(ScriptHostile, TextThatIsNoTorchScript) {
  auto error = [](const std::string& text) -> std::string {
    try {
      script::ParseSource(text, "code.py");
    } catch (const Error& wrong) {
      return wrong.message();
    }
    return "";
  };
  EXPECT_EQ(error("class A(Module):\n  pass\n"), "");
  EXPECT_THAT(error("def f(a: int) -> int:\n  return " + std::string(20'000, '(') + std::string(20'000, ')') + "\n"),
              HasSubstr("deep"));
  EXPECT_THAT(error("def f(a: int) -> int:\n  return " + std::string(20'000, '-') + "1\n"), HasSubstr("deep"));
  std::string chain = "a";
  for (int i = 0; i < 20'000; ++i) chain += ".b";
  EXPECT_THAT(error("def f(a: int) -> int:\n  return " + chain + "\n"), HasSubstr("deep"));
  std::string blocks, indent;
  for (int i = 0; i < 1000; ++i) blocks += (indent += " ") + "if a:\n";
  EXPECT_THAT(error("def f(a: int) -> int:\n" + blocks), HasSubstr("deep"));
  for (const char* text : {"def f(:\n", "def f() -> int:\nreturn 1\n", "x = 1\n", "def f() -> int:\n  return \"open\n",
                           "def f() -> int:\n  return 99999999999999999999\n", "class A(\n", "class", "def f()]:\n",
                           "def f() -> int:\n    a = 1\n  b = 2\n", "def f() -> int:\n  return \x01\n"})
    EXPECT_THAT(error(text), HasSubstr("line ")) << text;
}

TEST(ScriptHostile, CutOrDamagedArchives) {
  std::string path = ScriptArchive{.code = Module("    weight = self.weight\n    return torch.add(x, weight)\n"),
                                   .weights = {{"weight", {1, 2}}}}
                         .Write(TestName());
  std::string bytes(MappedFile::Open(path)->text());
  auto outcome = [](const std::string& contents) {
    try {
      auto kept = std::make_shared<std::string>(contents);
      SharedBytes shared{{reinterpret_cast<const std::byte*>(kept->data()), kept->size()}, kept};
      std::shared_ptr<Archive> archive = Archive::Open(shared);
      ExportScript(*archive, ForVector());
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(outcome(bytes));
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(outcome(bytes.substr(0, length))) << length;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    outcome(damaged);  // padding may be anything; the rest is refused, and nothing crashes
  }
}

// Words and lines of a program that uses much of the language, put together by chance.
TEST(ScriptHostile, ProgramsMadeByChance) {
  const std::string body =
      "    a = [1, 2, 3]\n"
      "    d = {\"k\": torch.len(a), \"l\": 2.5}\n"
      "    n = ops.prim.NumToTensor(torch.size(x, 0))\n"
      "    m = int(torch.floor_divide(n, 2))\n"
      "    p, q, = (torch.add(a[0], 1), None)\n"
      "    if torch.__is__(q, None):\n"
      "      y = torch.view(torch.clone(x), [-1, 1])\n"
      "    else:\n"
      "      y = unchecked_cast(Tensor, q)\n"
      "    if bool(torch.gt(torch.sum(x), d[\"l\"])):\n"
      "      z, k = torch.mul(y, 2), 5\n"
      "    else:\n"
      "      z, k = torch.neg(y), 7\n"
      "    for i in range(torch.size(x, 0)):\n"
      "      z = torch.add(z, i, alpha=k)\n"
      "    for i in range(torch.len(a)):\n"
      "      _0 = torch.append(a, i)\n"
      "    w = self.weight\n"
      "    parts = torch.chunk(torch.cat([w, w], 0), 2, 0)\n"
      "    u, v, = torch.max(torch.stack(parts, 0), 0, True)\n"
      "    s = torch.select(torch.slice(z, 0, 0, 9223372036854775807), 1, 0)\n"
      "    _1 = torch.copy_(torch.slice(s, 0, 0, 1), torch.tensor([5.], dtype=ops.prim.dtype(s)))\n"
      "    _2 = torch.format(\"{} {}\", a, torch.list(torch.size(z)))\n"
      "    return torch.add(s, torch.mul(torch.sum(u), m))\n";
  EXPECT_EQ(ErrorOf({.code = Module(body), .weights = {{"weight", {1, 2}}}}), "");
  std::vector<std::string> words;
  for (size_t i = 0, begin = 0; i < body.size(); ++i) {
    bool ends = std::string_view(" ,()[]{}.:=\n").find(body[i]) != std::string_view::npos;
    if (!ends) continue;
    words.push_back(body.substr(begin, i - begin));
    words.push_back(body.substr(i, 1));
    begin = i + 1;
  }
  std::mt19937 random(7);
  auto any = [&](size_t count) { return static_cast<size_t>(random() % count); };
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> mutant = words;
    for (size_t changes = 1 + any(4); changes > 0; --changes) {
      size_t at = any(mutant.size());
      switch (any(4)) {
        case 0: mutant[at] = words[any(words.size())]; break;
        case 1: mutant.erase(mutant.begin() + static_cast<ptrdiff_t>(at)); break;
        case 2: std::swap(mutant[at], mutant[any(mutant.size())]); break;
        default: mutant[at] = Cat(static_cast<int64_t>(random()) - (int64_t{1} << 31)); break;
      }
    }
    std::string code;
    for (const std::string& word : mutant) code += word;
    try {
      Export({.code = Module(code), .weights = {{"weight", {1, 2}}}});
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message() << "\n" << code;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << code;
    }
  }
}

}  // namespace
}  // namespace ferry::torch
