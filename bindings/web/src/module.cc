// What JavaScript calls beside ferry.h: files that lie in the module's memory.
#include <emscripten.h>

#include "api/handles.h"
#include "base/memory_files.h"

extern "C" {

// `data` comes from malloc and is the file's from now on.
EMSCRIPTEN_KEEPALIVE void ferry_web_put(const char* path, std::byte* data, size_t size) {
  ferry::PutMemoryFile(path, data, size);
}

EMSCRIPTEN_KEEPALIVE void ferry_web_remove(const char* path) { ferry::RemoveMemoryFile(path); }

// Sessions that may overwrite their files: the worker runs one thing at a time, and a file whose path is removed is the
// session's alone.
EMSCRIPTEN_KEEPALIVE void ferry_web_pack_in_place(ferry_options* options) { options->options.packs_in_place = true; }

}  // extern "C"
