// Large memory that is given back while an error is on its way to the caller.
#pragma once

#include <cstddef>

namespace ferry {

// As std::free. Giving a gigabyte of pages back takes the system a tenth of a second; whoever cancelled a run need not
// wait for that: while an exception is in flight, a thread of its own does it.
void FreeSoon(void* data, size_t bytes);

}  // namespace ferry
