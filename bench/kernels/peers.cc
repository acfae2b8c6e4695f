#include "peers.h"

#include <dlfcn.h>

#include <memory>
#include <unordered_map>

#ifdef FERRY_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace ferry::bench {
namespace {

std::vector<float> Numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

}  // namespace

Work OpenBlasGemm(int64_t m, int64_t n, int64_t k) {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  static void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  static const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  static const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (!sgemm) return {};
  if (set_threads) set_threads(1);
  auto a = Numbers(m * k), b = Numbers(k * n), c = Numbers(m * n);
  return [=]() mutable {
    constexpr int kRowMajor = 101, kAsIs = 111;
    auto whole = [](int64_t size) { return static_cast<int>(size); };
    sgemm(kRowMajor, kAsIs, kAsIs, whole(m), whole(n), whole(k), 1.0f, a.data(), whole(k), b.data(), whole(n), 0.0f,
          c.data(), whole(n));
  };
}

#ifdef FERRY_BENCH_ONEDNN
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Weights are brought into the layout that the primitive asks for beforehand, as Ferry packs its own.
Work MakeWork(const dnnl::primitive& primitive, const memory::desc& x, const memory::desc& w, const memory::desc& y) {
  dnnl::stream stream(Engine());
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(x, Engine())},
                                            {DNNL_ARG_WEIGHTS, memory(w, Engine())},
                                            {DNNL_ARG_DST, memory(y, Engine())}};
  for (auto& [argument, held] : arguments) {
    std::vector<float> values = Numbers(static_cast<int64_t>(held.get_desc().get_size() / sizeof(float)));
    std::copy(values.begin(), values.end(), static_cast<float*>(held.get_data_handle()));
  }
  return [=]() mutable {
    primitive.execute(stream, arguments);
    stream.wait();
  };
}

}  // namespace

Work OneDnnGemm(int64_t m, int64_t n, int64_t k) {
  memory::desc x({m, k}, kFloat, Tag::ab), w({k, n}, kFloat, Tag::any), y({m, n}, kFloat, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  dnnl::matmul::primitive_desc chosen(Engine(), x, w, y);
#else
  dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(x, w, y), Engine());
#endif
  return MakeWork(dnnl::matmul(chosen), chosen.src_desc(), chosen.weights_desc(), chosen.dst_desc());
}

Work OneDnnConv(const ConvShape& s) {
  memory::desc x({1, s.channels, s.size, s.size}, kFloat, Tag::any);
  memory::desc y({1, s.features, s.output(), s.output()}, kFloat, Tag::any);
  memory::dims filter = {s.features, s.channels / s.groups, s.kernel, s.kernel};
  if (s.groups > 1) filter = {s.groups, s.features / s.groups, s.channels / s.groups, s.kernel, s.kernel};
  memory::desc w(filter, kFloat, Tag::any);
  memory::dims strides{s.stride, s.stride}, pads{s.pad(), s.pad()};
  auto kind = dnnl::prop_kind::forward_inference;
  auto algorithm = dnnl::algorithm::convolution_auto;
#if DNNL_VERSION_MAJOR >= 3
  dnnl::convolution_forward::primitive_desc chosen(Engine(), kind, algorithm, x, w, y, strides, pads, pads);
#else
  dnnl::convolution_forward::primitive_desc chosen(
      dnnl::convolution_forward::desc(kind, algorithm, x, w, y, strides, pads, pads), Engine());
#endif
  return MakeWork(dnnl::convolution_forward(chosen), chosen.src_desc(), chosen.weights_desc(), chosen.dst_desc());
}

#else

Work OneDnnGemm(int64_t, int64_t, int64_t) { return {}; }
Work OneDnnConv(const ConvShape&) { return {}; }

#endif

}  // namespace ferry::bench
