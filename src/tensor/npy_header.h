// The header of a .npy file: a Python dictionary literal, of which only the form that numpy writes is understood.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

struct NpyHeader {
  std::string field;  // the name of the only field of a record type; empty for a plain type
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Throws kInvalidModel, or kUnsupported for record types of several fields.
NpyHeader ParseNpyHeader(std::string_view text);
// The bytes that stand before the elements, magic included, padded so that elements begin at a multiple of 64.
std::string FormatNpyHeader(const NpyHeader& header);

}  // namespace ferry
