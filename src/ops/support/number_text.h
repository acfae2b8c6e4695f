// Numbers as text and back, the way numpy writes and reads them, whatever the process's locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace ferry {

// The shortest text that reads back as the same value of `type`: "0.1", "100.0", "1e-05", "inf", "nan".
std::string FloatText(double value, DType type);

// Plain and scientific decimals; inf, infinity and nan in any case, with a sign or without. Nothing when it is no
// number.
std::optional<double> ParseFloat(std::string_view text);
// Decimal digits with an optional sign; nothing when there is anything else or the value does not fit.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<uint64_t> ParseUInt(std::string_view text);

bool EqualIgnoringCase(std::string_view a, std::string_view b);

}  // namespace ferry
