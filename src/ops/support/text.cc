#include "ops/support/text.h"

#include "base/check_run.h"

namespace ferry {

void AssignText(std::string& to, std::string_view first, std::string_view second) {
  constexpr size_t kPart = size_t{4} << 20;
  to.clear();
  to.reserve(first.size() + second.size());
  for (std::string_view text : {first, second})
    for (; !text.empty(); text.remove_prefix(std::min(kPart, text.size()))) {
      if (to.size() >= kPart) CheckRun();
      to += text.substr(0, kPart);
    }
}

void ChargeText(Tensor& strings, size_t bytes) { strings.buffer()->ChargeText(bytes); }

}  // namespace ferry
