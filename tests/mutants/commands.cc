#include "mutants/commands.h"

#include <exception>
#include <new>
#include <typeinfo>

#include "base/error.h"
#include "cli/command.h"

namespace ferry::mutants {
namespace {

using Words = std::vector<std::string>;

// What an operator of a service would give to a model from somebody else.
const Words kLimits{"--time-limit", "1", "--memory-limit", "1G", "--max-iterations", "100000"};

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words ForModel(const Place& at, Random& random) {
  const std::string out = at.folder + "/out.onnx";
  const std::string opset = std::to_string(7 + random() % 22);
  switch (random() % 12) {
    case 0: return {"check", at.mutant};
    case 1: return {"check", at.mutant, random() % 2 ? "--sarif" : "--json"};
    case 2: return {"info", at.mutant, random() % 2 ? "--layers" : "--graph"};
    case 3: return {"info", at.mutant, "--plan", "--json"};
    case 4: return Join({"doctor", at.mutant}, kLimits);
    case 5: return Join({"doctor", at.mutant, "--fix", out}, kLimits);
    case 6:
    case 7: return {"convert", at.mutant, "--opset", opset, "-o", out};
    case 8: return Join({"optimize", at.mutant, "-o", out}, kLimits);
    case 9: return Join({"bench", at.mutant, "--iters", "1", "--warmup", "0", "--threads", "1"}, kLimits);
    default:
      if (at.recording.empty())
        return Join({"bench", at.mutant, "--iters", "1", "--warmup", "0", "--threads", "1"}, kLimits);
      return Join({"run", at.mutant, "--inputs", at.recording, "--threads", "1"}, kLimits);
  }
}

Words ForProgram(const Place& at, Random& random) {
  Words words = Join({"export", at.mutant, "-o", at.folder + "/out.onnx"}, kLimits);
  if (!at.recording.empty() && random() % 2) words = Join(words, {"--data", at.recording, "--verify"});
  if (random() % 4 == 0) words = Join(words, {"--opset", std::to_string(11 + random() % 18)});
  if (random() % 8 == 0) words.push_back(random() % 2 ? "--eval" : "--no-fold");
  return words;
}

Words ForRecording(const Specimen& specimen, const Place& at, Random& random) {
  const std::string out = at.folder + "/out.onnx";
  if (specimen.model.empty() && !specimen.program.empty())
    return Join({"export", specimen.program, "-o", out, "--verify", "--data", at.mutant}, kLimits);
  switch (random() % 6) {
    case 0:
    case 1: return Join({"run", specimen.model, "--inputs", at.mutant, "--threads", "1"}, kLimits);
    case 2: return Join({"compare", specimen.model, "--data", at.mutant, "--threads", "1"}, kLimits);
    case 3: return Join({"doctor", specimen.model, "--data", at.mutant}, kLimits);
    case 4: return Join({"optimize", specimen.model, "-o", out, "--data", at.mutant}, kLimits);
    default: return Join({"run", specimen.model, "--inputs", at.mutant, "--outputs", at.folder + "/out.npz"}, kLimits);
  }
}

}  // namespace

Words CommandFor(const Specimen& specimen, const Place& place, Random& random) {
  // Now and then a file of one kind is given where another is meant.
  const bool astray = random() % 32 == 0;
  Format format = astray ? static_cast<Format>(random() % kFormats) : specimen.format;
  if (format == Format::kNpz && specimen.model.empty() && specimen.program.empty()) format = Format::kOnnx;
  switch (format) {
    case Format::kOnnx: return ForModel(place, random);
    case Format::kPt2:
    case Format::kPt: return ForProgram(place, random);
    default: return ForRecording(specimen, place, random);
  }
}

Outcome RunCommandLine(const Words& words, std::string& said) {
  try {
    const cli::Command* command = cli::FindCommand(words[0]);
    Require(command != nullptr, "there is no command '", words[0], "'");
    std::vector<const char*> rest;
    for (size_t i = 1; i < words.size(); ++i) rest.push_back(words[i].c_str());
    const int status = command->run(cli::Arguments::Parse(*command, rest));
    return status == cli::kUnusable ? Outcome::kRefused : Outcome::kAnswered;
  } catch (const Error&) {
    return Outcome::kRefused;
  } catch (const std::bad_alloc&) {
    return Outcome::kRefused;
  } catch (const cli::UsageError& error) {
    said = "wrong usage: " + error.message;
  } catch (const std::exception& error) {
    said = std::string(typeid(error).name()) + ": " + error.what();
  } catch (...) {
    said = "an unknown exception";
  }
  return Outcome::kWrong;
}

}  // namespace ferry::mutants
