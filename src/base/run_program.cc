#include "base/run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/directory.h"
#include "base/error.h"

extern char** environ;

namespace ferry {

int RunProgram(const std::vector<std::string>& words, const std::string& output) {
  Require(!words.empty(), "there is no program to run");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string& target = output.empty() ? std::string("/dev/null") : output;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, target.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int reason = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) Fail(ErrorCode::kNotFound, "cannot start '", Printable(words[0]), "': ", std::strerror(reason));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) Fail(ErrorCode::kIo, "cannot wait for '", Printable(words[0]), "': ", std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TemporaryFolder::TemporaryFolder() {
  const char* place = std::getenv("TMPDIR");
  path_ = JoinPath(place && *place ? place : "/tmp", "ferry-XXXXXX");
  if (!mkdtemp(path_.data()))
    Fail(ErrorCode::kIo, "cannot make a folder '", Printable(path_), "': ", std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  try {
    for (const std::string& name : ListDirectory(path_)) unlink(JoinPath(path_, name).c_str());
  } catch (const Error&) {
  }
  rmdir(path_.c_str());
}

void MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    Fail(ErrorCode::kIo, "cannot make the folder '", Printable(path), "': ", std::strerror(errno));
  if (!IsDirectory(path)) Fail(ErrorCode::kIo, "'", Printable(path), "' is not a folder");
}

}  // namespace ferry
