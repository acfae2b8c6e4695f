// Ways in which files are damaged, by accident and on purpose.
#pragma once

#include <random>
#include <string>

#include "mutants/corpus.h"

namespace ferry::mutants {

using Random = std::mt19937_64;

// The bytes of a mutant of `specimen`. Archives are damaged as files, or taken apart and put together again with sound
// checksums around a damaged entry. `scratch` is a path that may be written.
std::string Damaged(const Specimen& specimen, const Corpus& corpus, Random& random, const std::string& scratch);

}  // namespace ferry::mutants
