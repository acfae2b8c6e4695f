// Which of several ways was fastest on this device: timed when it is first asked for, remembered in the cache folder.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/function_ref.h"
#include "providers/cuda/device.h"

namespace ferry::cuda {

// What a file of choices says; lines that are not as they are written are left out.
std::map<std::string, int> ParseChoices(const std::string& text);
std::string ToText(const std::map<std::string, int>& choices);

class Choices {
 public:
  static Choices& Of(const Device& device);

  // The number of the fastest of `count` ways to do what `key` describes. `run` asks the device for one of them and may
  // throw where that way cannot be had. While work is recorded nothing can be timed: then it is the first. Of ways that
  // are nearly as fast it is the one with the fewest `bytes` of workspace, asked for after `run`.
  int Fastest(const Device& device, const std::string& key, int count, FunctionRef<void(int)> run,
              FunctionRef<size_t(int)> bytes);
  int Fastest(const Device& device, const std::string& key, int count, FunctionRef<void(int)> run) {
    return Fastest(device, key, count, run, [](int) { return size_t{0}; });
  }
  // What an earlier call, or an earlier process, came to; -1: nothing.
  int Known(const std::string& key);
  std::map<std::string, int> All();
  // What another process found out counts where nothing is known here.
  void Add(const std::map<std::string, int>& choices);

 private:
  explicit Choices(std::string path);
  void Remember(const std::string& key, int choice);  // in this process
  void Keep(const std::string& key, int choice);      // and in the file

  const std::string path_;  // empty: nothing is kept
  std::mutex mutex_;
  std::map<std::string, int> known_;
};

}  // namespace ferry::cuda
