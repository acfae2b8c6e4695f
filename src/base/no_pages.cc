// Where memory is not made of pages, as in WebAssembly: there is nothing to ask for.
#include "base/page_advice.h"

namespace ferry {

void TakePages(void*, size_t) {}

}  // namespace ferry
