// A shared library opened while the program runs: whoever uses one links nothing, and does without where it is not
// installed.
#pragma once

#include <memory>
#include <span>
#include <string>

namespace ferry {

class SharedLibrary {
 public:
  // The first of `names` (file names to look for as the system does, or paths) that can be opened. Null when none can;
  // `why` then says what the system said of each.
  static std::unique_ptr<SharedLibrary> Open(std::span<const std::string> names, std::string& why);
  // Memory of a library may be in use until the process ends, by threads of its own as well: it stays.
  ~SharedLibrary() = default;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  const std::string& name() const { return name_; }  // the one of `names`
  void* Find(const char* function) const;            // null when it has no such function

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  std::string name_;
  void* handle_;
};

}  // namespace ferry
