#include "cli/build_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/atomic_file.h"
#include "base/directory.h"
#include "base/mapped_file.h"
#include "base/run_program.h"
#include "cli/measure_code.h"
#include "convert/c/step_writer.h"

namespace ferry::cli {
namespace {

void WriteFile(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.CommitUnsynced();
}

// The memory sanitizer knows what nobody has written; elsewhere it is no number, and no index.
constexpr std::string_view kPoison = R"(#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
void __msan_poison(const volatile void *from, size_t bytes);
#define POISON __msan_poison(arena, sizeof arena)
#endif
#endif
#ifndef POISON
#define POISON memset(arena, 0xff, sizeof arena)
#endif
)";

// A program that reads the inputs from one file, runs the network and writes the outputs to another; with a third word
// it goes on for so many seconds and prints the median time of a run in microseconds.
std::string MainText(const CBuild& built) {
  std::string buffers, reads, writes, call;
  auto add = [&](const CArgument& argument, const char* verb, std::string& lines, size_t number) {
    const size_t bytes = StorageBytes(argument.type, argument.shape.ElementCount());
    buffers += Cat("static uint64_t b", number, "[", bytes / 8 + 2, "];\n");
    if (bytes > 0) lines += Cat("  if (", verb, "(b", number, ", 1, ", bytes, ", f) != ", bytes, ") return 2;\n");
    call += Cat(call.empty() ? "" : ", ", "(void *)b", number);
  };
  size_t number = 0;
  for (const CArgument& argument : built.inputs) add(argument, "fread", reads, number++);
  for (const CArgument& argument : built.outputs) add(argument, "fwrite", writes, number++);
  const std::string run = Cat(built.name, "_run(", call, ")");
  const std::string checked =
      Cat("memset(arena, 0xff, sizeof arena);\n  ", built.name, "_run_in(arena", call.empty() ? "" : ", ", call, ")");
  buffers += Cat("static uint64_t arena[", std::max<size_t>((built.arena_bytes + 7) / 8, 1), "];\n", kPoison);
  return Cat(
      "#define _POSIX_C_SOURCE 199309L\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "
      "<time.h>\n#include \"",
      built.name, ".h\"\n", buffers,
      "static double t[10001];\n"
      "static double now(void) { struct timespec s; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &s); return "
      "(double)s.tv_sec * 1e6 + (double)s.tv_nsec * 1e-3; }\n"
      "static int order(const void *a, const void *b) { const double x = *(const double *)a, y = *(const double "
      "*)b; return (x > y) - (x < y); }\n"
      "int main(int count, char **word) {\n  FILE *f;\n  if (count < 3) return 2;\n  f = fopen(word[1], "
      "\"rb\");\n  if (!f) return 2;\n",
      reads, "  fclose(f);\n  ", checked, ";\n  f = fopen(word[2], \"wb\");\n  if (!f) return 2;\n", writes,
      "  if (fclose(f) != 0) return 2;\n  if (count > 3) {\n    const double end = now() + atof(word[3]) * "
      "1e6;\n    int k = 0, batch = 1;\n"
      "    for (;;) { const double s = now(); for (int i = 0; i < batch; i++) ",
      run,
      "; if (now() - s > 50 || batch > 1000000) break; batch *= 2; }\n"
      "    do { const double s = now(); for (int i = 0; i < batch; i++) ",
      run,
      "; t[k++] = (now() - s) / batch; } while ((now() < end || k < 3) && k < 10000);\n"
      "    qsort(t, (size_t)k, sizeof t[0], order);\n    printf(\"%.4f\\n\", t[k / 2]);\n  }\n  return 0;\n}\n");
}

// Elements of an argument as C has them: a bit pattern for what has no type there.
std::string Elements(const CArgument& argument, const Tensor& tensor) {
  std::string text, line;
  auto add = [&](const std::string& item) {
    if (line.size() + item.size() > 116) text += line + "\n", line.clear();
    line += item + ",";
  };
  const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.raw());
  const auto count = static_cast<size_t>(tensor.size());
  for (size_t i = 0; i < count && argument.type == DType::kFloat; ++i)
    add(c::Literal(double{tensor.Data<float>()[i]}, DType::kFloat));
  for (size_t i = 0; i < count && argument.type == DType::kDouble; ++i)
    add(c::Literal(tensor.Data<double>()[i], DType::kDouble));
  if (text.empty() && line.empty()) {
    const bool is_integer = IsSignedInteger(argument.type) && !IsPacked(argument.type);
    const size_t size = IsPacked(argument.type) ? 1 : static_cast<size_t>(BitWidth(argument.type)) / 8;
    for (size_t at = 0; at + size <= tensor.bytes(); at += size) {
      uint64_t number = 0;
      std::memcpy(&number, bytes + at, size);  // of a machine whose first byte is the lowest
      const auto shift = static_cast<unsigned>(64 - 8 * size);
      if (is_integer)
        add(c::IntegerLiteral(static_cast<int64_t>(number << shift) >> shift));
      else
        add(size == 8 ? Cat("UINT64_C(", number, ")") : Cat(number, "u"));
    }
  }
  return text + line;
}

std::string ReadText(const std::string& path) {
  if (!IsFile(path)) return {};
  return std::string(MappedFile::Open(path)->text());
}

}  // namespace

std::string TestText(const CBuild& built, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
  std::string data, call, checks;
  auto array = [&](const char* kind, const CArgument& argument, const std::string& name, const Tensor* tensor) {
    const size_t bytes = StorageBytes(argument.type, argument.shape.ElementCount());
    const std::string_view type = c::StoredType(argument.type);
    data += Cat(kind, type, " ", name, "[", std::max<size_t>(bytes, 1), " / sizeof(", type, ") + 1]",
                tensor ? Cat(" = {\n", Elements(argument, *tensor), "0}") : "", ";\n");
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    array("static const ", built.inputs[i], Cat("in", i), &inputs[i]);
    call += Cat(", in", i);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const CArgument& output = built.outputs[i];
    if (IsSmallFloat(output.type) || IsComplex(output.type) || output.type == DType::kFloat4E2M1)
      Fail(ErrorCode::kUnsupported, "output '", Printable(output.name), "' is ", Name(output.type),
           ": --test is for float, double and integers");
    array("static const ", output, Cat("want", i), &expected[i]);
    array("static ", output, Cat("got", i), nullptr);
    call += Cat(", got", i);
    double room = 0, relative = 0;
    if (IsFloating(output.type)) {
      const Tensor wide = output.type == DType::kFloat ? expected[i] : Tensor();
      for (int64_t k = 0; wide.defined() && k < wide.size(); ++k)
        if (const double size = std::fabs(double{wide.Data<float>()[k]}); std::isfinite(size))
          room = std::max(room, 2e-6 * size);
      relative = 1e-3, room = std::max(room, 1e-7);
    }
    if (output.type == DType::kInt8 || output.type == DType::kUInt8) room = 1;
    const size_t bytes = StorageBytes(output.type, output.shape.ElementCount());
    checks += Cat("  for (size_t i = 0; i < ", bytes, " / sizeof got", i, "[0]; i++) wrong |= differs((double)got", i,
                  "[i], (double)want", i, "[i], ", room, ", ", relative, ");\n");
  }
  return Cat("/* ", built.name, " on recorded or random inputs: exit status 0 where it answers as the engine did. */\n",
             "#include <math.h>\n#include \"", built.name, ".h\"\n\n", data, "static uint64_t arena[",
             std::max<size_t>((built.arena_bytes + 7) / 8, 1), "];\n",
             "\nstatic int differs(double got, double want, double room, double relative) {\n"
             "  if (got == want || (got != got && want != want)) return 0;\n"
             "  return !(fabs(got - want) <= room + relative * fabs(want));\n}\n\n",
             "int main(void) {\n  int wrong = 0;\n  ", built.name, "_run_in(arena", call, ");\n", checks,
             "  return wrong;\n}\n");
}

CompiledRun CompileAndRun(const CBuild& built, const std::string& folder, const std::vector<Tensor>& inputs,
                          double seconds, const std::vector<std::string>& flags) {
  const TemporaryFolder work;
  const std::string main = JoinPath(work.path(), "main.c"), program = JoinPath(work.path(), "program"),
                    log = JoinPath(work.path(), "log"), in = JoinPath(work.path(), "in"),
                    out = JoinPath(work.path(), "out");
  WriteFile(main, MainText(built));
  std::string bytes;
  for (const Tensor& input : inputs) bytes.append(reinterpret_cast<const char*>(input.raw()), input.bytes());
  WriteFile(in, bytes);
  std::vector<std::string> words = CompilerWords();
  words.insert(words.end(), flags.begin(), flags.end());
  for (const std::string& word : {Cat("-I", folder), main, JoinPath(folder, Cat(built.name, ".c")), std::string("-o"),
                                  program, std::string("-lm")})
    words.push_back(word);
  if (!built.weights.empty())
    words.push_back(Cat(
        "-D",
        [&] {
          std::string upper = built.name;
          for (char& ch : upper) ch = static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
          return upper;
        }(),
        "_BIN=\"", JoinPath(folder, Cat(built.name, ".bin")), "\""));
  CompiledRun made;
  if (RunProgram(words, log) != 0) {
    made.compiler_log = ReadText(log);
    if (made.compiler_log.empty()) made.compiler_log = "the compiler gave no reason";
    return made;
  }
  words = {program, in, out};
  if (seconds > 0) words.push_back(Cat(seconds));
  int status = 0;
  try {
    status = RunProgram(words, log);
  } catch (const Error& error) {
    Fail(ErrorCode::kUnsupported, error.message(), ": what the compiler makes must run here (on a board: --test)");
  }
  if (status != 0) Fail(ErrorCode::kInternal, "the compiled program ended with status ", status);
  if (seconds > 0) made.median_us = std::atof(ReadText(log).c_str());
  const std::string results = ReadText(out);
  size_t at = 0;
  for (const CArgument& output : built.outputs) {
    Tensor tensor(output.type, output.shape);
    Require(at + tensor.bytes() <= results.size(), "the compiled program wrote too little");
    std::memcpy(tensor.mutable_raw(), results.data() + at, tensor.bytes());
    at += tensor.bytes();
    made.outputs.push_back(std::move(tensor));
  }
  return made;
}

Difference CompareOutput(const Tensor& actual, const Tensor& expected) {
  Tolerance tolerance{.rtol = 1e-3, .atol = 1e-7};
  if (expected.dtype() == DType::kInt8 || expected.dtype() == DType::kUInt8) tolerance.integers = 1;
  if (expected.dtype() == DType::kFloat)
    for (int64_t i = 0; i < expected.size(); ++i)
      if (const float size = std::fabs(expected.Data<float>()[i]); std::isfinite(size))
        tolerance.atol = std::max(tolerance.atol, 2e-6 * static_cast<double>(size));
  if (IsSmallFloat(expected.dtype())) tolerance.rtol = 1e-2, tolerance.atol = 1e-3;
  return Compare(actual, expected, tolerance);
}

}  // namespace ferry::cli
