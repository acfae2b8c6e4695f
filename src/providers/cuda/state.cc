#include "providers/cuda/state.h"

#include <cstring>

#include "base/error.h"
#include "providers/cuda/choices.h"

namespace ferry::cuda {
namespace {

constexpr std::string_view kMagic = "ferry cuda 1\n";

void AppendText(std::string& out, std::string_view text) {
  const uint64_t size = text.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(text);
}

std::string_view TakeText(std::string_view& rest) {
  uint64_t size = 0;
  if (rest.size() >= sizeof size) std::memcpy(&size, rest.data(), sizeof size);
  if (rest.size() < sizeof size || size > rest.size() - sizeof size)
    Fail(ErrorCode::kInvalidModel, "the kernels of a plan end too early");
  const std::string_view text = rest.substr(sizeof size, static_cast<size_t>(size));
  rest.remove_prefix(sizeof size + text.size());
  return text;
}

}  // namespace

std::string ToBytes(const ReadyState& state) {
  std::string out(kMagic);
  AppendText(out, ToText(state.choices));
  for (const auto& [source, code] : state.kernels) {
    AppendText(out, source);
    AppendText(out, code);
  }
  return out;
}

ReadyState ParseState(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic)
    Fail(ErrorCode::kInvalidModel, "the kernels of a plan do not begin as they are written");
  bytes.remove_prefix(kMagic.size());
  ReadyState state;
  state.choices = ParseChoices(std::string(TakeText(bytes)));
  while (!bytes.empty()) {
    std::string source(TakeText(bytes));
    state.kernels[std::move(source)] = TakeText(bytes);
  }
  return state;
}

}  // namespace ferry::cuda
