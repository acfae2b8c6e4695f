// The text of a program: NAME.c, NAME.h and a CMake file.
#pragma once

#include "convert/c/build_c.h"
#include "convert/c/program.h"

namespace ferry::c {

void PrintSource(const Program& program, bool weights_file, CBuild& made);

}  // namespace ferry::c
