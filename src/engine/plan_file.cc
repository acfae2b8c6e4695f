#include "engine/plan_file.h"

#include <cstring>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/version.h"
#include "engine/loaded_model.h"
#include "engine/runtime.h"
#include "engine/weight_file.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

constexpr std::string_view kMagic = "ferry plan 1\n";
constexpr size_t kMostStates = 16;

void Append(std::string& out, uint64_t number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); }

void AppendText(std::string& out, std::string_view text) {
  Append(out, text.size());
  out.append(text);
}

[[noreturn]] void FailDamaged(const char* why) {
  Fail(ErrorCode::kInvalidModel, "the plan is damaged: ", why, "; write it again with 'ferry optimize'");
}

class PlanReader {
 public:
  explicit PlanReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    if (rest_.size() < sizeof number) FailDamaged("it ends too early");
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_.remove_prefix(sizeof number);
    return number;
  }
  std::string_view Text() {
    const uint64_t size = Number();
    if (size > rest_.size()) FailDamaged("a part is longer than the file");
    const std::string_view text = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(text.size());
    return text;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: break;
    case Precision::kBf16: return "bf16";
    case Precision::kTf32: return "tf32";
    case Precision::kFp16: return "fp16";
  }
  return "float32";
}

std::string MachineOf(const SessionOptions& options) {
  std::string text;
  for (const Provider* provider : ProvidersFor(options))
    text += Cat(text.empty() ? "" : "; ", provider->name(), ": ", provider->Fingerprint(ProviderOptionsFrom(options)));
  return text;
}

// Those of the plan, where the caller did not ask for others.
SessionOptions OptionsFor(const PlanFile& plan, SessionOptions options) {
  const SessionOptions usual;
  Require(options.provider == usual.provider || options.provider == plan.provider, "the plan is for provider '",
          Printable(plan.provider), "', not for '", Printable(options.provider), "'");
  const Precision precision = PrecisionNamed(plan.precision);
  Require(options.precision == usual.precision || options.precision == precision, "the plan computes in ",
          Printable(plan.precision), ", not in ", NameOf(options.precision));
  options.provider = plan.provider;
  options.precision = precision;
  return options;
}

}  // namespace

bool IsPlanFile(const std::string& path) {
  if (path.size() < 5 || path.compare(path.size() - 5, 5, ".plan") != 0) return false;
  return MappedFile::Open(path)->text().substr(0, kMagic.size()) == kMagic;
}

PlanFile ParsePlan(std::string_view bytes, std::shared_ptr<const void> keep_alive) {
  uint64_t sum = 0;
  if (bytes.size() < kMagic.size() + sizeof sum || bytes.substr(0, kMagic.size()) != kMagic)
    FailDamaged("it does not begin as plans do");
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  bytes.remove_suffix(sizeof sum);
  if (Checksum(bytes.data(), bytes.size()) != sum) FailDamaged("its checksum is wrong");
  PlanReader reader(bytes.substr(kMagic.size()));
  PlanFile plan;
  for (std::string* text : {&plan.version, &plan.provider, &plan.precision, &plan.machine}) *text = reader.Text();
  const uint64_t states = reader.Number();
  if (states > kMostStates) FailDamaged("it has too many providers");
  for (uint64_t i = 0; i < states; ++i) plan.states.emplace_back(reader.Text());
  plan.model = reader.Text();
  if (!reader.at_end()) FailDamaged("something follows its end");
  plan.keep_alive = std::move(keep_alive);
  return plan;
}

std::string ToBytes(const PlanFile& plan) {
  std::string out(kMagic);
  for (const std::string* text : {&plan.version, &plan.provider, &plan.precision, &plan.machine})
    AppendText(out, *text);
  Append(out, plan.states.size());
  for (const std::string& state : plan.states) AppendText(out, state);
  AppendText(out, plan.model);
  Append(out, Checksum(out.data(), out.size()));
  return out;
}

PlanFile MakePlanFile(const Session& session) {
  const SessionOptions& options = session.options();
  PlanFile plan{kVersion, options.provider, NameOf(options.precision), MachineOf(options), {}, {}};
  for (const Provider* provider : ProvidersFor(options)) plan.states.push_back(provider->State());
  auto model = std::make_shared<const std::string>(SerializeModel(session.model()));
  plan.model = *model;
  plan.keep_alive = model;
  return plan;
}

void WritePlan(const PlanFile& plan, const std::string& path) {
  AtomicFile file(path);
  file.Write(ToBytes(plan));
  file.Commit();
}

std::shared_ptr<Session> OpenPlan(const std::string& path, const SessionOptions& options) {
  try {
    const std::shared_ptr<MappedFile> file = MappedFile::Open(path);
    const PlanFile plan = ParsePlan(file->text(), file);
    if (plan.version != kVersion)
      Fail(ErrorCode::kUnsupported, "the plan was written by Ferry ", Printable(plan.version), ", this is ", kVersion,
           ": write it again with 'ferry optimize'");
    const SessionOptions own = OptionsFor(plan, options);
    const std::string machine = MachineOf(own);
    if (plan.machine != machine)
      Fail(ErrorCode::kUnsupported, "the plan was made for another machine (", Printable(plan.machine, 400),
           "), this is (", Printable(machine, 400), "): write it again here with 'ferry optimize'");
    const std::vector<const Provider*> providers = ProvidersFor(own);
    if (plan.states.size() != providers.size()) FailDamaged("its providers and their states do not match");
    for (size_t i = 0; i < providers.size(); ++i) providers[i]->Restore(plan.states[i]);
    const std::span<const std::byte> model(reinterpret_cast<const std::byte*>(plan.model.data()), plan.model.size());
    return Session::FromModel(ReadModelFromMemory(model, plan.keep_alive), own);
  } catch (Error& error) {
    if (error.message().find(path) == std::string::npos) error.At(path);
    throw;
  }
}

}  // namespace ferry
