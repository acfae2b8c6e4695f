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
inline constexpr Option kProviderOption = {.name = "provider",
                                           .value = "P",
                                           .help = "what runs the model; cuda,cpu: the CPU takes what is left",
                                           .words = "cpu cuda cuda,cpu"};
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
        "of float products: bf16 keeps weights as bfloat16, half the memory, with errors of some thousandths; on a GPU "
        "tf32 rounds operands to 10 bits, and bf16 and fp16 compute everything in that type (usually float32)",
    .words = "float32 bf16 tf32 fp16"};
inline constexpr Option kTimeLimitOption = {
    .name = "time-limit",
    .value = "SECONDS",
    .help = "give up when opening the model, or one run, takes longer (usually there is no limit)"};
inline constexpr Option kMemoryLimitOption = {
    .name = "memory-limit",
    .value = "BYTES",
    .help = "give up when a run needs more memory beside the weights; K, M and G are understood (usually no limit)"};
inline constexpr Option kDeviceMemoryOption = {
    .name = "device-memory",
    .value = "BYTES",
    .help =
        "give up when more of a GPU's memory is needed, weights among it; K, M and G are understood (usually no "
        "limit)"};
inline constexpr Option kMaxIterationsOption = {
    .name = "max-iterations",
    .value = "N",
    .help = "give up after so many turns of all loops of a run together (usually 100000000)"};
inline constexpr Option kMaxInflatedOption = {
    .name = "max-inflated",
    .value = "BYTES",
    .help = "refuse archives whose compressed entries unfold to more (usually 4G, a quarter of it for one entry)"};
inline constexpr Option kDimOption = {
    .name = "dim", .value = "NAME=VALUE", .help = "the size of a named dimension (usually 1)", .repeated = true};

// What the four options above say.
Limits LimitsFrom(const Arguments& arguments);
SessionOptions SessionOptionsFrom(const Arguments& arguments);
std::map<std::string, int64_t> DimensionsFrom(const Arguments& arguments);

}  // namespace ferry::cli
