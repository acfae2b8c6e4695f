// What a process has made ready for a device, as bytes that another one takes up: compiled kernels by their sources,
// and which ways were fastest.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ferry::cuda {

struct ReadyState {
  std::map<std::string, std::string> kernels;  // source to machine code
  std::map<std::string, int> choices;
};

std::string ToBytes(const ReadyState& state);
// Throws kInvalidModel unless the bytes are whole.
ReadyState ParseState(std::string_view bytes);

}  // namespace ferry::cuda
