// What JavaScript calls beside ferry.h: files that lie in the module's memory.
#include <emscripten.h>

#include "base/memory_files.h"

extern "C" {

// `data` comes from malloc and is the file's from now on.
EMSCRIPTEN_KEEPALIVE void ferry_web_put(const char* path, std::byte* data, size_t size) {
  ferry::PutMemoryFile(path, data, size);
}

EMSCRIPTEN_KEEPALIVE void ferry_web_remove(const char* path) { ferry::RemoveMemoryFile(path); }

}  // extern "C"
