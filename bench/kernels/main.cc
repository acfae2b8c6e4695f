// What the kernels make of the machine: time, operations a second and the share of its peak, on one thread, with
// OpenBLAS and oneDNN beside them where they are installed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/session.h"
#include "kernels/packed_gemm.h"
#include "peak.h"
#include "peers.h"
#include "providers/cpu/conv.h"

namespace ferry::bench {
namespace {

struct Settings {
  double seconds = 0.3;  // for each line
  std::string only;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Timed {
  Work work;
  std::vector<double> times = {};

  void RunOnce() {
    if (!work) return;
    double begin = Now();
    work();
    times.push_back(Now() - begin);
  }
  double Median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

void PrintHead() {
  std::printf("%-40s %10s %9s %7s %20s %20s\n", "kernel", "us", "GFLOP/s", "peak", "OpenBLAS us", "oneDNN us");
}

// Everybody in turns, the peak too: whatever else the machine does hits all of them.
void Measure(const Settings& settings, const std::string& name, double flops, Work ours, Work blas = {},
             Work dnn = {}) {
  if (name.find(settings.only) == std::string::npos) return;
  Timed all[] = {{std::move(ours)}, {std::move(blas)}, {std::move(dnn)}};
  std::vector<double> peaks;
  for (Timed& one : all)
    if (one.work) one.work();
  double begin = Now();
  for (int round = 0; round < 5 || Now() - begin < settings.seconds; ++round) {
    double start = Now(), operations = RunPeak();
    peaks.push_back(operations / (Now() - start));
    for (Timed& one : all) one.RunOnce();
  }
  std::sort(peaks.begin(), peaks.end());
  double time = all[0].Median(), rate = flops / time;
  std::printf("%-40s %10.1f %9.1f %6.0f%%", name.c_str(), time * 1e6, rate / 1e9, 100 * rate / peaks[peaks.size() / 2]);
  for (Timed* peer : {&all[1], &all[2]}) {
    if (peer->times.empty())
      std::printf(" %20s", "");
    else
      std::printf(" %10.1f (%5.2fx)", peer->Median() * 1e6, peer->Median() / time);
  }
  std::printf("\n");
  std::fflush(stdout);
}

Tensor Numbers(Shape shape) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.MutableData<float>()[i] = static_cast<float>(i * 7919 % 2003) / 1001.5f - 1.0f;
  return tensor;
}

Tensor Bytes(DType type, Shape shape) {
  Tensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.mutable_raw()[i] = static_cast<std::byte>(i * 7919 % 251);
  return tensor;
}

Node MakeNode(const char* op, std::vector<std::string> inputs, std::vector<std::string> outputs,
              std::vector<Attribute> attributes) {
  Node node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

// One operator as the engine runs it; `constants` are weights.
Work RunOperator(Node node, std::vector<NamedValue> given, std::vector<std::pair<std::string, Tensor>> constants = {}) {
  Model model;
  model.ir_version = 10;
  model.opsets.push_back({"", 23, {}});
  model.has_graph = true;
  model.graph.name = "bench";
  for (const NamedValue& input : given) {
    ValueInfo info;
    info.name = input.first;
    info.type = Type::Tensor(input.second.tensor().dtype(), ToSymbolic(input.second.tensor().shape()));
    model.graph.inputs.push_back(std::move(info));
  }
  for (auto& [name, tensor] : constants) model.graph.initializers.push_back(MakeStored(name, tensor));
  ValueInfo result;
  result.name = node.outputs[0];
  model.graph.outputs.push_back(std::move(result));
  model.graph.nodes.push_back(std::move(node));
  std::shared_ptr<Session> session = Session::FromModel(std::move(model), {.threads = 1});
  return [session, given = std::move(given)] { session->Run(given); };
}

void BenchGemm(const Settings& settings) {
  struct Size {
    int64_t m, n, k;
  };
  for (auto [m, n, k] : {Size{128, 768, 768},
                         {128, 3072, 768},
                         {128, 768, 3072},
                         {197, 2304, 768},
                         {512, 512, 512},
                         {3136, 64, 64},
                         {196, 256, 1024},
                         {49, 2048, 512},
                         {16, 768, 768},
                         {1, 4096, 1024}}) {
    double flops = 2.0 * static_cast<double>(m * n * k);
    Measure(settings, Cat("gemm ", m, "x", n, "x", k), flops,
            RunOperator(MakeNode("MatMul", {"a", "b"}, {"c"}, {}), {{"a", Numbers({m, k})}}, {{"b", Numbers({k, n})}}),
            OpenBlasGemm(m, n, k), OneDnnGemm(m, n, k));
    Measure(settings, Cat("int8 gemm ", m, "x", n, "x", k), flops,
            RunOperator(MakeNode("MatMulInteger", {"a", "b"}, {"c"}, {}), {{"a", Bytes(DType::kUInt8, {m, k})}},
                        {{"b", Bytes(DType::kInt8, {k, n})}}));
  }
}

Work RunConv(const ConvShape& s,
             std::unique_ptr<ConvAlgorithm> (*make)(const Tensor&, const NhwcConvPlan&, WeightCache&)) {
  struct Held {
    Node node;
    Tensor x, w, y;
    NhwcConvPlan plan;
    WeightCache cache;
    std::unique_ptr<ConvAlgorithm> algorithm;
  };
  auto held = std::make_shared<Held>();
  held->node = MakeNode("NhwcConv", {"x", "w"}, {"y"},
                        {{"group", s.groups},
                         {"strides", std::vector<int64_t>{s.stride, s.stride}},
                         {"pads", std::vector<int64_t>(4, s.pad())}});
  held->x = Numbers({1, s.size, s.size, s.channels});
  held->w = Numbers({s.features, s.channels / s.groups, s.kernel, s.kernel});
  held->plan = PlanNhwcConv(held->node, held->x.shape(), held->w.shape());
  held->y = Tensor(DType::kFloat, held->plan.output);
  held->algorithm = make(held->w, held->plan, held->cache);
  return [held] {
    RunServices services;
    OpContext context(held->node, {}, {}, services);
    held->algorithm->Run(
        {context, held->plan, held->x.Data<float>(), nullptr, nullptr, held->y.MutableData<float>(), {}});
  };
}

void BenchConv(const Settings& settings) {
  auto title = [](const char* how, const ConvShape& s) {
    return Cat(how, " ", s.channels, "->", s.features, " ", s.size, "^2 k", s.kernel, " s", s.stride,
               s.groups > 1 ? Cat(" g", s.groups) : "");
  };
  auto winograd2 = [](const Tensor& w, const NhwcConvPlan& plan, WeightCache& cache) {
    return MakeWinogradConv(w, plan, 2, cache);
  };
  auto winograd4 = [](const Tensor& w, const NhwcConvPlan& plan, WeightCache& cache) {
    return MakeWinogradConv(w, plan, 4, cache);
  };
  for (ConvShape s : {ConvShape{64, 64, 56, 3}, {128, 128, 28, 3}, {256, 256, 14, 3}, {512, 512, 7, 3}}) {
    // Operations of the plain convolution: Winograd's share of the peak may pass 100 %.
    Measure(settings, title("conv", s), s.flops(), RunConv(s, MakeGemmConv), {}, OneDnnConv(s));
    Measure(settings, title("winograd2", s), s.flops(), RunConv(s, winograd2), {}, OneDnnConv(s));
    Measure(settings, title("winograd4", s), s.flops(), RunConv(s, winograd4), {}, OneDnnConv(s));
  }
  for (ConvShape s : {ConvShape{3, 64, 224, 7, 2},
                      {3, 32, 224, 3, 2},
                      {128, 128, 56, 3, 2},
                      {64, 256, 56, 1},
                      {256, 64, 56, 1},
                      {1024, 256, 14, 1},
                      {24, 24, 56, 3, 1, 3},
                      {128, 128, 28, 3, 1, 32}})
    Measure(settings, title("conv", s), s.flops(), RunConv(s, MakeGemmConv), {}, OneDnnConv(s));
  for (ConvShape s : {ConvShape{32, 32, 112, 3, 1, 32},
                      {96, 96, 112, 3, 2, 96},
                      {144, 144, 56, 3, 1, 144},
                      {384, 384, 14, 3, 1, 384},
                      {240, 240, 28, 5, 1, 240},
                      {96, 96, 56, 7, 1, 96}})
    Measure(settings, title("depthwise", s), s.flops(), RunConv(s, MakeDepthwiseConv), {}, OneDnnConv(s));
}

// Operations are counted as one for each addition, multiplication and exponential: a few for each element.
void BenchRows(const Settings& settings) {
  for (auto [rows, width] : {std::pair<int64_t, int64_t>{1536, 128}, {128, 3072}, {2364, 197}}) {
    double elements = static_cast<double>(rows * width);
    Measure(settings, Cat("softmax ", rows, "x", width), 5 * elements,
            RunOperator(MakeNode("Softmax", {"x"}, {"y"}, {{"axis", int64_t{-1}}}), {{"x", Numbers({rows, width})}}));
    Measure(settings, Cat("layernorm ", rows, "x", width), 7 * elements,
            RunOperator(MakeNode("LayerNormalization", {"x", "scale", "bias"}, {"y"}, {}),
                        {{"x", Numbers({rows, width})}}, {{"scale", Numbers({width})}, {"bias", Numbers({width})}}));
  }
}

void BenchAttention(const Settings& settings) {
  struct Size {
    int64_t heads, queries, keys, width;
  };
  for (auto [heads, queries, keys, width] :
       {Size{12, 128, 128, 64}, {12, 197, 197, 64}, {12, 512, 512, 64}, {6, 1500, 1500, 64}, {12, 1, 256, 64}}) {
    Shape q = {1, heads, queries, width}, kv = {1, heads, keys, width};
    Measure(settings, Cat("attention ", heads, " heads ", queries, "x", keys, "x", width),
            4.0 * static_cast<double>(heads * queries * keys * width),
            RunOperator(MakeNode("Attention", {"q", "k", "v"}, {"y"}, {}),
                        {{"q", Numbers(q)}, {"k", Numbers(kv)}, {"v", Numbers(kv)}}));
  }
}

int Main(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    bool has_value = i + 1 < count;
    if (std::strcmp(words[i], "--only") == 0 && has_value) {
      settings.only = words[++i];
    } else if (std::strcmp(words[i], "--seconds") == 0 && has_value) {
      settings.seconds = std::strtod(words[++i], nullptr);
    } else {
      std::fprintf(stderr, "usage: bench_kernels [--only TEXT] [--seconds S]\n");
      return 2;
    }
  }
  std::printf("instruction set: %s, one thread\n", BestGemmKernels().isa);
  PrintHead();
  BenchGemm(settings);
  BenchConv(settings);
  BenchRows(settings);
  BenchAttention(settings);
  return 0;
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** words) {
  setenv("OMP_NUM_THREADS", "1", 1);  // oneDNN and OpenBLAS
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  try {
    return ferry::bench::Main(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_kernels: %s\n", error.what());
    return 1;
  }
}
