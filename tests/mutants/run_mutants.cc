// Damages small models in every way bytes can be damaged, loads what is left and runs it with inputs of zeros. Each
// mutant must be answered or refused: no crash (build with the sanitizers), nothing longer than ten seconds.
//
//   run_mutants FOLDER COUNT [FIRST]     mutants FIRST to FIRST + COUNT - 1 of the models below FOLDER; number N is
//   always
//                                        the same mutant, so that one that fails can be run again alone
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/session.h"
#include "onnx/reader.h"

namespace ferry {
namespace {

constexpr size_t kLargestModel = 20'000;
constexpr unsigned kSecondsPerMutant = 10;

std::vector<std::string> SmallModels(const std::string& folder) {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".onnx" && entry.file_size() <= kLargestModel) models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  return models;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One or two wounds: a byte or a bit changed, bytes set to an extreme, and, rarely because little then can be read at
// all, bytes removed or doubled.
void Damage(std::string& bytes, std::mt19937_64& random) {
  for (size_t wounds = 1 + random() % 2; wounds > 0 && !bytes.empty(); --wounds) {
    size_t at = random() % bytes.size(), length = std::min<size_t>(1 + random() % 9, bytes.size() - at);
    switch (random() % 12) {
      case 0: bytes.erase(at, length); break;
      case 1: bytes.insert(at, bytes.substr(at, length)); break;
      case 2:
      case 3:
      case 4:
      case 5: bytes[at] = static_cast<char>(random()); break;
      case 6:
      case 7:
      case 8: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
      case 9: std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), length, static_cast<char>(0xff)); break;
      default:
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), length, static_cast<char>(random() % 2 ? 0x7f : 0));
        break;
    }
  }
}

Value ZerosFor(const Type& type) {
  if (type.kind == Type::Kind::kSequence) return Sequence{};
  if (type.kind == Type::Kind::kOptional) return Nothing{};
  Shape shape;
  if (type.shape)
    for (const Dim& dim : *type.shape) shape.push_back(dim.known() ? *dim.value : 2);
  Require(shape.ElementCount() <= (int64_t{1} << 28), "an input of ", shape.ElementCount(),
          " elements is not worth making");
  return Tensor::Zeros(type.dtype == DType::kUndefined ? DType::kFloat : type.dtype, shape);
}

bool IsAnswered(const std::string& bytes) {
  try {
    auto kept = std::make_shared<std::string>(bytes);
    Model model = ReadModelFromMemory({reinterpret_cast<const std::byte*>(kept->data()), kept->size()}, kept);
    auto session = Session::FromModel(std::move(model), {.threads = 1, .limits = {.iterations = 1000}});
    std::vector<NamedValue> inputs;
    for (const ValueInfo& input : session->inputs()) inputs.emplace_back(input.name, ZerosFor(input.type));
    session->Run(inputs);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int Run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: run_mutants FOLDER COUNT [FIRST]\n");
    return 2;
  }
  std::vector<std::string> models = SmallModels(argv[1]);
  if (models.empty()) {
    std::fprintf(stderr, "no small models below %s\n", argv[1]);
    return 2;
  }
  uint64_t count = std::strtoull(argv[2], nullptr, 10), first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  uint64_t answered = 0;
  double slowest = 0;
  for (uint64_t number = first; number < first + count; ++number) {
    std::mt19937_64 random(number);
    const std::string& path = models[random() % models.size()];
    std::string bytes = ReadAll(path);
    Damage(bytes, random);
    // What runs is on record before it runs: after a crash or an alarm the last line names it.
    std::fprintf(stderr, "\r%llu %s ", static_cast<unsigned long long>(number), path.c_str());
    alarm(kSecondsPerMutant);
    auto begin = std::chrono::steady_clock::now();
    answered += IsAnswered(bytes);
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    alarm(0);
  }
  std::fprintf(stderr, "\n");
  std::printf("%llu mutants: %llu answered, %llu refused, slowest %.2f s\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(answered), static_cast<unsigned long long>(count - answered), slowest);
  return 0;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) { return ferry::Run(argc, argv); }
