// A program whose arena has no more than so many bytes: runs of steps are done by stripes until it fits.
#pragma once

#include "convert/c/program.h"
#include "convert/c/rewrite.h"

namespace ferry::c {

struct ProgramRequest {
  const std::vector<std::string>& inputs;
  const std::vector<std::string>& outputs;
  const WriterOptions& options;
};

// Steps with their places. Throws NeedsValue or kUnsupported.
Program WriteProgram(const RewrittenGraph& rewritten, const ProgramRequest& request);

struct FittedProgram {
  Program program;
  std::vector<CStripes> stripes;
};

// Throws kLimit with the least that was reached where nothing fits.
FittedProgram FitProgram(const RewrittenGraph& whole, const Program& program, const ProgramRequest& request,
                         size_t most_bytes);

}  // namespace ferry::c
