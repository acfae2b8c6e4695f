// What the operating system says of the processor, where the compiler has no word for it.
#pragma once

namespace ferry {

// Dot products of bytes on 64-bit ARM (SDOT, UDOT); false elsewhere.
bool HasArmDotProducts();

}  // namespace ferry
