// Starts another program and waits for it.
#pragma once

#include <string>
#include <vector>

namespace ferry {

// Its exit status (128 and more: ended by a signal). What it writes to standard output and error goes to `output`, a
// file's name, or nowhere. Throws kNotFound when there is no such program.
int RunProgram(const std::vector<std::string>& words, const std::string& output = {});

// A new folder for files of this process alone, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Makes a folder where there is none; its parent must be there.
void MakeFolder(const std::string& path);

}  // namespace ferry
