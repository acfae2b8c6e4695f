#include "convert/c/print_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/version.h"

namespace ferry::c {
namespace {

constexpr int64_t kManyElements = 4096;  // from here on floats are written as their bits: shorter, and faster to read

std::string UpperCase(std::string text) {
  for (char& ch : text) ch = static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
  return text;
}

class LineWrapper {
 public:
  explicit LineWrapper(std::string& out) : out_(out) {}
  void Add(std::string_view item) {
    if (column_ + item.size() > 118) out_ += "\n", column_ = 0;
    out_ += item;
    column_ += item.size();
  }

 private:
  std::string& out_;
  size_t column_ = 0;
};

template <class T>
void AppendIntegers(const Tensor& tensor, std::string& out) {
  LineWrapper lines(out);
  const auto* data = reinterpret_cast<const T*>(tensor.raw());
  const size_t count = tensor.bytes() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 8)
      lines.Add(std::is_signed_v<T> ? (static_cast<int64_t>(data[i]) == INT64_MIN ? std::string("INT64_MIN,")
                                                                                  : Cat("INT64_C(", data[i], "),"))
                                    : Cat("UINT64_C(", data[i], "),"));
    else if constexpr (std::is_same_v<T, int32_t>)
      lines.Add(data[i] == INT32_MIN ? std::string("INT32_MIN,") : Cat(data[i], ","));
    else if constexpr (std::is_same_v<T, uint32_t>)
      lines.Add(Cat(data[i], "u,"));
    else
      lines.Add(Cat(static_cast<int>(data[i]), ","));
  }
}

void AppendElements(const Tensor& tensor, std::string& out) {
  LineWrapper lines(out);
  switch (tensor.dtype()) {
    case DType::kFloat:
    case DType::kComplex64:
      for (size_t i = 0; i < tensor.bytes() / 4; ++i) {
        std::string text = Literal(reinterpret_cast<const float*>(tensor.raw())[i], DType::kFloat);
        if (text[0] == '(') text = text.substr(1, text.size() - 2);
        lines.Add(text + ",");
      }
      return;
    case DType::kDouble:
    case DType::kComplex128:
      for (size_t i = 0; i < tensor.bytes() / 8; ++i)
        lines.Add(Literal(reinterpret_cast<const double*>(tensor.raw())[i], DType::kDouble) + ",");
      return;
    case DType::kInt8: return AppendIntegers<int8_t>(tensor, out);
    case DType::kInt16: return AppendIntegers<int16_t>(tensor, out);
    case DType::kInt32: return AppendIntegers<int32_t>(tensor, out);
    case DType::kInt64: return AppendIntegers<int64_t>(tensor, out);
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return AppendIntegers<uint16_t>(tensor, out);
    case DType::kUInt32: return AppendIntegers<uint32_t>(tensor, out);
    case DType::kUInt64: return AppendIntegers<uint64_t>(tensor, out);
    default: return AppendIntegers<uint8_t>(tensor, out);
  }
}

void AppendFloatBits(const Tensor& tensor, std::string& out) {
  LineWrapper lines(out);
  const auto* bits = reinterpret_cast<const uint32_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.size(); ++i) lines.Add(Cat(bits[i], bits[i] > INT32_MAX ? "u," : ","));
}

size_t StoredCount(const Tensor& tensor) {
  const std::string_view type = StoredType(tensor.dtype());
  const size_t size = type == "double" || type == "int64_t" || type == "uint64_t"  ? 8
                      : type == "float" || type == "int32_t" || type == "uint32_t" ? 4
                      : type == "int16_t" || type == "uint16_t"                    ? 2
                                                                                   : 1;
  return std::max<size_t>(tensor.bytes() / size, 1);
}

class SourcePrinter {
 public:
  SourcePrinter(const Program& program, bool weights_file, CBuild& made)
      : program_(program), weights_file_(weights_file), made_(made), upper_(UpperCase(made.name)) {}

  void Print() {
    NameArguments();
    for (const std::string& line : program_.lines) body_ += program_.Resolve(line) + "\n";
    std::string weights = Weights(), helpers, functions;
    for (const std::string& helper : program_.helpers) helpers += Cat(FindHelper(helper).text, "\n");
    for (const Function& function : program_.functions)
      functions += Cat("/* ", Safe(function.comment), " */\nstatic void ", function.name, "(", function.parameters,
                       ") {\n", function.text, "}\n\n");
    std::string& out = made_.source;
    out = Cat("/* ", made_.name, ": written by ferry ", kVersion, ". C99, no heap. */\n#include \"", made_.name,
              ".h\"\n\n#include <math.h>\n#include <string.h>\n\n");
    out += Cat("#ifndef ", upper_, "_WEIGHTS\n#define ", upper_,
               "_WEIGHTS /* an attribute for all weights: a section, an alignment */\n#endif\n");
    out += Cat("#ifndef ", upper_, "_ARENA\n#define ", upper_, "_ARENA /* an attribute for the arena of ", made_.name,
               "_run */\n#endif\n\n");
    out += weights + "\n" + helpers + functions + Entry();
    made_.header = Header();
    made_.cmake = Cat("add_library(", made_.name, " STATIC ", made_.name, ".c)\ntarget_include_directories(",
                      made_.name, " PUBLIC ${CMAKE_CURRENT_LIST_DIR})\nset_target_properties(", made_.name,
                      " PROPERTIES C_STANDARD 99)\ntarget_link_libraries(", made_.name, " PUBLIC m)\n");
    if (!made_.weights.empty())
      made_.cmake += Cat("target_compile_definitions(", made_.name, " PRIVATE ", upper_,
                         "_BIN=\"${CMAKE_CURRENT_LIST_DIR}/", made_.name, ".bin\")\n");
  }

 private:
  static std::string Safe(const std::string& text) {
    std::string out;
    for (char ch : text)
      out += ch == '*' || ch == '\\' || static_cast<unsigned char>(ch) < 32 || static_cast<unsigned char>(ch) > 126
                 ? '.'
                 : ch;
    return out;
  }

  void NameArguments() {
    std::set<std::string> taken = {"arena"};
    for (const char* word :
         {"auto",   "break",    "case",     "char",     "const",  "continue",  "default",   "do",     "double",
          "else",   "enum",     "extern",   "float",    "for",    "goto",      "if",        "inline", "int",
          "long",   "register", "restrict", "return",   "short",  "signed",    "sizeof",    "static", "struct",
          "switch", "typedef",  "union",    "unsigned", "void",   "volatile",  "while",     "class",  "new",
          "delete", "this",     "template", "typename", "bool",   "true",      "false",     "and",    "or",
          "not",    "xor",      "operator", "private",  "public", "protected", "namespace", "using",  "try",
          "catch",  "throw",    "mutable",  "explicit", "export", "friend",    "virtual",   "asm",    "I",
          "unix",   "linux",    "export"})
      taken.insert(word);
    for (std::vector<CArgument>* arguments : {&made_.inputs, &made_.outputs})
      for (CArgument& argument : *arguments) {
        std::string name = CName(argument.name).substr(0, 60);
        if (name[0] == '_') name.insert(0, "v");
        while (!taken.insert(name).second) name += "_";
        argument.c = name;
      }
  }

  // Constants that a line names, each once; large floats as their bits.
  std::string Weights() {
    std::string out, in_file;
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      if (!IsMentioned(Cat("W", i))) continue;
      const Tensor& tensor = program_.constants[i];
      made_.weight_bytes += tensor.bytes();
      const std::string_view type = StoredType(tensor.dtype());
      const std::string attribute = Cat(" ", upper_, "_WEIGHTS = {");
      if (weights_file_ && tensor.size() >= kManyElements) {
        while (made_.weights.size() % 64) made_.weights += '\0';
        in_file += Cat("#define W", i, " ((const ", type, " *)(const void *)(", made_.name, "_bin + ",
                       made_.weights.size(), "))\n");
        made_.weights.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
        continue;
      }
      if (tensor.dtype() == DType::kFloat && tensor.size() >= kManyElements) {
        out += Cat("static const union {\n  uint32_t bits[", tensor.size(), "];\n  float numbers[", tensor.size(),
                   "];\n} W", i, "_bits", attribute, "{\n");
        AppendFloatBits(tensor, out);
        out += Cat("}};\n#define W", i, " W", i, "_bits.numbers\n");
        continue;
      }
      const size_t count = StoredCount(tensor);
      // Pairs of 16-bit numbers are read as words.
      const bool in_words = tensor.dtype() == DType::kInt16 && count > 1;
      if (in_words) out += "ALIGNED_WORDS ";
      out += Cat("static const ", type, " W", i, "[", count, "]", attribute, count > 8 ? "\n" : "");
      if (tensor.bytes() == 0) out += "0";
      AppendElements(tensor, out);
      out += "};\n";
    }
    if (out.find("ALIGNED_WORDS ") != std::string::npos)
      out.insert(0,
                 "#if defined(__GNUC__)\n#define ALIGNED_WORDS __attribute__((aligned(4)))\n#else\n#define "
                 "ALIGNED_WORDS\n#endif\n");
    if (made_.weights.empty()) return out;
    return Cat("/* The file ", made_.name, ".bin is taken in by the assembler: gcc and clang. */\n#ifndef ", upper_,
               "_BIN\n#define ", upper_, "_BIN \"", made_.name, ".bin\"\n#endif\nextern const unsigned char ",
               made_.name, "_bin[];\n__asm__(\".section .rodata\\n.balign 64\\n.globl ", made_.name, "_bin\\n",
               made_.name, "_bin:\\n.incbin \\\"\" ", upper_, "_BIN \"\\\"\\n.text\\n\");\n", in_file, out);
  }

  bool IsMentioned(const std::string& word) const {
    for (size_t at = body_.find(word); at != std::string::npos; at = body_.find(word, at + 1))
      if (!std::isdigit(static_cast<unsigned char>(body_[at + word.size()])) &&
          !std::isalnum(static_cast<unsigned char>(body_[at - 1])) && body_[at - 1] != '_')
        return true;
    return false;
  }

  static size_t ElementCount(const CArgument& argument) {
    const Tensor like(argument.type, Shape{0});
    size_t bytes = StorageBytes(argument.type, argument.shape.ElementCount());
    if (IsPacked(argument.type)) return std::max<size_t>(bytes, 1);
    size_t count = static_cast<size_t>(argument.shape.ElementCount()) * (IsComplex(argument.type) ? 2 : 1);
    return std::max<size_t>(count, 1);
  }

  // "const float in0[12], float out0[4]", or with the names of the model.
  std::string Parameters(bool in_header) const {
    std::string text;
    auto add = [&](const std::vector<CArgument>& arguments, const char* prefix, const char* constant) {
      int number = 0;
      for (const CArgument& argument : arguments) {
        const std::string own = argument.is_fixed ? std::string(argument.c) : Cat(prefix, number);
        number += !argument.is_fixed;
        if (!text.empty()) text += ", ";
        text += Cat(constant, StoredType(argument.type), " ",
                    in_header           ? argument.c
                    : argument.is_fixed ? Cat("fixed_", own)
                                        : own,
                    "[", ElementCount(argument), "]");
      }
    };
    add(made_.inputs, "IN", "const ");
    add(made_.outputs, "OUT", "");
    return text;
  }

  std::string Entry() const {
    const std::string parameters = Parameters(false);
    std::string call, unused;
    int number = 0;
    for (const CArgument& argument : made_.inputs) {
      const std::string name = argument.is_fixed ? Cat("fixed_", argument.c) : Cat("IN", number++);
      call += Cat(", ", name);
      if (!IsMentioned(name)) unused += Cat("  (void)", name, ";\n");
    }
    for (size_t i = 0; i < made_.outputs.size(); ++i) {
      call += Cat(", OUT", i);
      if (!IsMentioned(Cat("OUT", i))) unused += Cat("  (void)OUT", i, ";\n");
    }
    std::string out =
        Cat("void ", made_.name, "_run_in(void *arena", parameters.empty() ? "" : ", ", parameters, ") {\n");
    const bool reads_arena = body_.find("(m)") != std::string::npos || body_.find("(m +") != std::string::npos;
    out += reads_arena ? "  unsigned char *const m = arena;\n" : "  (void)arena;\n";
    out += Cat(unused, body_, "}\n\n#ifndef ", upper_, "_NO_ARENA\n");
    if (made_.arena_bytes)
      out += Cat("static uint64_t ", made_.name, "_arena[", (made_.arena_bytes + 7) / 8, "] ", upper_, "_ARENA;\n\n");
    out +=
        Cat("void ", made_.name, "_run(", parameters.empty() ? "void" : parameters, ") {\n  ", made_.name, "_run_in(",
            made_.arena_bytes ? Cat(made_.name, "_arena") : std::string("NULL"), call, ");\n}\n#endif\n");
    return out;
  }

  // How many elements an argument has, and what its integers stand for.
  std::string Macros() const {
    std::set<std::string> taken;
    std::string out;
    for (const std::vector<CArgument>* arguments : {&made_.inputs, &made_.outputs})
      for (const CArgument& argument : *arguments) {
        std::string name = Cat(upper_, "_", UpperCase(argument.c));
        while (!taken.insert(name).second) name += "_";
        out += Cat("#define ", name, "_COUNT ", ElementCount(argument), "\n");
        if (argument.scale != 0)
          out += Cat("#define ", name, "_SCALE ", Literal(argument.scale, DType::kFloat), " /* a number is ", name,
                     "_SCALE * (", argument.c, "[i] - ", name, "_ZERO_POINT) */\n#define ", name, "_ZERO_POINT ",
                     IntegerLiteral(argument.zero_point), "\n");
      }
    return out.empty() ? out : out + "\n";
  }

  std::string Header() const {
    std::string out = Cat("/* ", made_.name, ": written by ferry ", kVersion, ".\n *\n");
    auto describe = [&](const CArgument& argument, const char* what) {
      out += Cat(" * ", what, " ", argument.c, ": ", Name(argument.type), " ", argument.shape,
                 argument.is_fixed ? ", fixed when this was written: not read" : "", "\n");
    };
    for (const CArgument& argument : made_.inputs) describe(argument, "in ");
    for (const CArgument& argument : made_.outputs) describe(argument, "out");
    out +=
        " *\n * Arrays are row-major. float16 and bfloat16 are their bits, bool is 0 or 1, integers of 4 and 2 bits "
        "are packed, low bits first.\n */\n";
    out += Cat("#ifndef FERRY_", upper_, "_H\n#define FERRY_", upper_,
               "_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    out += Cat("#define ", upper_, "_ARENA_BYTES ", made_.arena_bytes, " /* scratch of one run */\n");
    out += Cat("#define ", upper_, "_WEIGHT_BYTES ", made_.weight_bytes, " /* constants: may stay in flash */\n\n");
    out += Macros();
    const std::string parameters = Parameters(true);
    out += Cat("/* In an arena of its own, for one caller at a time; left out with ", upper_, "_NO_ARENA. */\nvoid ",
               made_.name, "_run(", parameters.empty() ? "void" : parameters, ");\n");
    out += Cat("/* In the caller's memory, aligned to 16 bytes: reentrant. It may hold anything before. */\nvoid ",
               made_.name, "_run_in(void *arena", parameters.empty() ? "" : ", ", parameters, ");\n\n");
    return out + "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  }

  const Program& program_;
  const bool weights_file_;
  CBuild& made_;
  const std::string upper_;
  std::string body_;
};

}  // namespace

void PrintSource(const Program& program, bool weights_file, CBuild& made) {
  SourcePrinter(program, weights_file, made).Print();
}

}  // namespace ferry::c
