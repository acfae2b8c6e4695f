// Runs the binary as a user would and keeps what it said.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/temporary_folder.h"

extern char** environ;

namespace ferry {

struct Said {
  int status = -1;
  std::string out, err;
  long peak_kilobytes = 0;  // of memory, mapped files included
  Json json() const { return Json::Parse(out); }
};

inline std::string ReadText(const std::string& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "rb")) {
    char piece[4096];
    for (size_t n; (n = std::fread(piece, 1, sizeof piece, file)) > 0;) text.append(piece, n);
    std::fclose(file);
  }
  return text;
}

inline void WriteText(const std::string& path, std::string_view text) {
  FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

// A folder of the running test, empty at its start.
inline std::string ScratchFolder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string folder = testing::TemporaryPath(std::string(test->test_suite_name()) + "_" + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);  // the names of tests with parameters have a '/'
  return folder;
}

inline Said Ferry(const std::vector<std::string>& arguments) {
  std::string prefix = testing::TemporaryPath("said");
  std::string out_path = prefix + ".out", err_path = prefix + ".err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<std::string> words{FERRY_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Said said;
  pid_t child = 0;
  int failure = posix_spawn(&child, FERRY_BINARY, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << "the binary can't be started: " << FERRY_BINARY;
  int status = 0;
  rusage usage{};
  if (failure == 0 && wait4(child, &status, 0, &usage) == child)
    said.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  said.peak_kilobytes = usage.ru_maxrss;
  said.out = ReadText(out_path);
  said.err = ReadText(err_path);
  unlink(out_path.c_str());
  unlink(err_path.c_str());
  return said;
}

// One clear sentence: a single line on standard error, and nothing else.
inline void ExpectOneSentence(const Said& said) {
  EXPECT_EQ(said.out, "");
  ASSERT_FALSE(said.err.empty());
  EXPECT_EQ(said.err.find('\n'), said.err.size() - 1) << said.err;
}

inline std::string SimpleNet(const std::string& file) {
  return std::string(FERRY_TEST_DATA) + "/torch-models/simple_net/" + file;
}

}  // namespace ferry
