// gzip and deflate, for bodies of HTTP and messages of gRPC.
#pragma once

#include <string>
#include <string_view>

namespace ferry::server {

enum class Coding { kIdentity, kGzip, kDeflate };

// Throws Refusal: for bytes that are not of this form, and for more than `most` bytes of content.
std::string Decompress(std::string_view bytes, Coding coding, size_t most);
std::string Compress(std::string_view bytes, Coding coding);

}  // namespace ferry::server
