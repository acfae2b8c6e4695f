// Places for the files of a test. They go with the test, and no two tests share one, in whichever processes they run.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace ferry::testing {

// A folder of its own that is gone after the test.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& place = std::filesystem::temp_directory_path()) {
    std::string pattern = (place / "ferry-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder can be made in " + place.string());
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A name for a file in the folder of this process, which is gone when it ends.
inline std::string TemporaryPath(const std::string& name) {
  static const TemporaryFolder folder;
  return (folder / name).string();
}

}  // namespace ferry::testing
