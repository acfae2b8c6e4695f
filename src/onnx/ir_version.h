// Which IR version each opset was released with.
#pragma once

#include <cstdint>
#include <string_view>

namespace ferry {

inline constexpr int64_t kOldestIrVersion = 3;
inline constexpr int64_t kNewestIrVersion = 14;

// The IR version of the release that brought an opset; 0 for domains and opsets the standard does not have.
int64_t IrVersionOfOpset(std::string_view domain, int64_t opset);

}  // namespace ferry
