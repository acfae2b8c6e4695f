// The one line that whatever takes long calls every few milliseconds. Sources that are compiled for several instruction
// sets include this and nothing else of a run.
#pragma once

namespace ferry {

// Throws kCancelled or kDeadline when the calling thread's run has to end. Costs a few nanoseconds, and a look at the
// clock where there is a deadline.
void CheckRun();

}  // namespace ferry
