// Language models, for ferry/_generate.py.
#include <pybind11/stl.h>

#include "bindings.h"
#include "generate/generator.h"
#include "interrupt.h"

namespace ferry::python {
namespace {

struct HeldTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
};
struct HeldGenerator {
  std::shared_ptr<const Generator> generator;
};

HeldGenerator OpenGenerator(const std::string& model, const std::string& tokenizer, int threads,
                            const std::string& provider, const std::map<std::string, std::string>& roles,
                            const std::vector<std::pair<std::string, std::string>>& caches) {
  SessionOptions options;
  options.threads = threads;
  options.provider = provider;
  py::gil_scoped_release unlocked;
  return {Generator::Open(model, tokenizer, options, {roles, caches})};
}

GenerateOptions OptionsFrom(const std::map<std::string, double>& numbers, uint64_t seed,
                            std::vector<std::string> stop) {
  auto number = [&](const char* name, double otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  GenerateOptions options;
  options.max_tokens = static_cast<int64_t>(number("max_tokens", 256));
  options.context = static_cast<int64_t>(number("context", 0));
  options.sampling = {number("temperature", 0), static_cast<int64_t>(number("top_k", 0)), number("top_p", 1),
                      number("min_p", 0),       number("repetition_penalty", 1),          seed};
  options.stop = std::move(stop);
  return options;
}

py::dict Generate(const HeldGenerator& held, const std::string& prompt, const std::map<std::string, double>& numbers,
                  uint64_t seed, std::vector<std::string> stop, bool add_special, const py::object& on_text) {
  GenerateOptions options = OptionsFrom(numbers, seed, std::move(stop));
  options.add_special = add_special;
  std::atomic<bool> cancelled{false};
  options.cancelled = &cancelled;
  // What the caller's function raises goes on to him: a run is no place for it.
  std::exception_ptr raised;
  if (!on_text.is_none())
    options.on_text = [&](std::string_view text) {
      py::gil_scoped_acquire locked;
      try {
        const py::object said = on_text(py::str(text.data(), text.size()));
        return !said.is(py::bool_(false));
      } catch (...) {
        raised = std::current_exception();
        return false;
      }
    };
  const InterruptGuard guard(cancelled);
  Generated made;
  try {
    py::gil_scoped_release unlocked;
    made = held.generator->Generate(prompt, options);
  } catch (const Error&) {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    throw;
  }
  if (raised) std::rethrow_exception(raised);
  py::dict said;
  said["text"] = made.text;
  said["ids"] = made.ids;
  said["prompt_ids"] = made.prompt;
  said["reason"] = ToText(made.reason);
  said["prompt_seconds"] = made.prompt_seconds;
  said["seconds"] = made.seconds;
  return said;
}

}  // namespace

void BindGenerate(py::module_& m) {
  py::class_<HeldTokenizer>(m, "Tokenizer")
      .def(py::init([](const std::string& path) { return HeldTokenizer{Tokenizer::Open(path)}; }))
      .def("encode", [](const HeldTokenizer& held, const std::string& text,
                        bool add_special) { return held.tokenizer->Encode(text, add_special); })
      .def("decode", [](const HeldTokenizer& held, const std::vector<TokenId>& ids,
                        bool skip_special) { return held.tokenizer->Decode(ids, skip_special); })
      .def("find", [](const HeldTokenizer& held, const std::string& token) { return held.tokenizer->Find(token); })
      .def("text_of",
           [](const HeldTokenizer& held, TokenId id) -> std::optional<std::string> {
             const std::string* text = held.tokenizer->TextOf(id);
             return text ? std::optional(*text) : std::nullopt;
           })
      .def("size", [](const HeldTokenizer& held) { return held.tokenizer->size(); });
  py::class_<HeldGenerator>(m, "Generator")
      .def(py::init(&OpenGenerator))
      .def("generate", &Generate)
      .def("window", [](const HeldGenerator& held) { return held.generator->window(); });
}

}  // namespace ferry::python
