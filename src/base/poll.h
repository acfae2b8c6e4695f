// CheckRun for loops of many short turns.
#pragma once

#include "base/check_run.h"

namespace ferry {

// Looks once in a thousand calls.
class Poll {
 public:
  void operator()() {
    if (++calls_ % 1024 == 0) CheckRun();
  }

 private:
  unsigned calls_ = 0;
};

}  // namespace ferry
