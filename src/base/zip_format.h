// The records of the ZIP format that the reader and the writer share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocatorSignature = 0x07064b50;

inline constexpr size_t kLocalBytes = 30;
inline constexpr size_t kCentralBytes = 46;
inline constexpr size_t kEndBytes = 22;
inline constexpr size_t kEnd64Bytes = 56;
inline constexpr size_t kLocatorBytes = 20;

inline constexpr uint16_t kMethodStored = 0;
inline constexpr uint16_t kMethodDeflated = 8;
inline constexpr uint16_t kZip64Extra = 0x0001;
inline constexpr uint16_t kAlignmentExtra = 0xD935;  // the field zipalign uses for padding

inline constexpr uint16_t kFlagEncrypted = 1 << 0;
inline constexpr uint16_t kFlagDescriptor = 1 << 3;  // sizes and checksum follow the contents
inline constexpr uint16_t kFlagPatched = 1 << 5;
inline constexpr uint16_t kFlagUtf8 = 1 << 11;

inline constexpr uint32_t kFull32 = 0xFFFFFFFF;  // "see the zip64 field"
inline constexpr uint16_t kFull16 = 0xFFFF;

}  // namespace ferry::zip
