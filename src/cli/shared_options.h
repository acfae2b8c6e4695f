// Options that several commands have, and what they mean.
#pragma once

#include <map>
#include <memory>

#include "cli/command.h"
#include "engine/session.h"

namespace ferry::cli {

inline constexpr Position kModelPosition = {.name = "MODEL", .help = "an .onnx file", .completes = Completes::kModel};

inline constexpr Option kThreadsOption = {
    .name = "threads", .value = "N", .help = "threads of one run (usually one per core)"};
inline constexpr Option kProviderOption = {
    .name = "provider", .value = "P", .help = "what runs the model", .words = "cpu"};
inline constexpr Option kCacheOption = {
    .name = "cache",
    .value = "DIR",
    .help = "keep packed weights in this folder: the next start maps them instead of packing again",
    .completes = Completes::kDirectory};
inline constexpr Option kExactOption = {
    .name = "exact",
    .help =
        "only algorithms that add up products as the operators' texts do (no Winograd): slower, closer to the truth"};
inline constexpr Option kTuneOption = {
    .name = "tune",
    .value = "FILE",
    .help =
        "time the algorithms that fit each convolution and remember the fastest in FILE (none: without remembering)",
    .completes = Completes::kFile};
inline constexpr Option kPrecisionOption = {
    .name = "precision",
    .value = "P",
    .help =
        "of float products: bf16 keeps weights as bfloat16, half the memory, with errors of some thousandths "
        "(usually float32)",
    .words = "float32 bf16"};
inline constexpr Option kDimOption = {
    .name = "dim", .value = "NAME=VALUE", .help = "the size of a named dimension (usually 1)", .repeated = true};

SessionOptions SessionOptionsFrom(const Arguments& arguments);
std::map<std::string, int64_t> DimensionsFrom(const Arguments& arguments);

}  // namespace ferry::cli
