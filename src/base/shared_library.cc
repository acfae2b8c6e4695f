#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/text.h"

namespace ferry {

std::unique_ptr<SharedLibrary> SharedLibrary::Open(std::span<const std::string> names, std::string& why) {
  why.clear();
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::unique_ptr<SharedLibrary>(new SharedLibrary(name, handle));
    const char* reason = dlerror();
    why += Cat(why.empty() ? "" : "; ", reason ? Printable(reason) : Cat(Printable(name), ": cannot be opened"));
  }
  return nullptr;
}

void* SharedLibrary::Find(const char* function) const { return dlsym(handle_, function); }

}  // namespace ferry
