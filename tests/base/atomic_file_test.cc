#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/zip.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  static void Put(const fs::path& path, std::string_view text) {
    AtomicFile file(path.string());
    file.Write(text);
    file.Commit();
  }
  static std::string Text(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t ModeOf(const fs::path& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0);
    return facts.st_mode & 07777;
  }
  std::ptrdiff_t FileCount() const {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }
  // Not every file system knows files without a name.
  bool HasUnnamedFiles() const {
    int descriptor = open(folder_.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(AtomicFileTest, AppearsWhenItIsComplete) {
  fs::path path = folder_ / "f";
  Put(path, "old");
  {
    AtomicFile abandoned(path.string());
    abandoned.Write("half");
  }
  EXPECT_EQ(Text(path), "old");
  AtomicFile file(path.string());
  file.Write("new");
  file.Finish();
  EXPECT_EQ(Text(path), "old");
  file.Commit();
  EXPECT_EQ(Text(path), "new");
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(AtomicFileTest, SmallAndLargePiecesStayInOrder) {
  AtomicFile file((folder_ / "f").string());
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    std::string piece(static_cast<size_t>(i % 7 == 0 ? 100'000 : i), static_cast<char>('a' + i % 26));
    expected += piece;
    file.Write(piece);
  }
  file.CommitUnsynced();
  EXPECT_EQ(Text(folder_ / "f"), expected);
}

TEST_F(AtomicFileTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(folder_ / "d");
  Put(folder_ / "d" / "target", "old");
  fs::create_symlink("d/target", folder_ / "link");
  fs::create_symlink("link", folder_ / "link_to_link");
  Put(folder_ / "link_to_link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link_to_link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_FALSE(fs::is_symlink(folder_ / "d" / "target"));
  EXPECT_EQ(Text(folder_ / "d" / "target"), "new");
}

TEST_F(AtomicFileTest, ALinkToNothingGetsItsTarget) {
  fs::create_directory(folder_ / "d");
  fs::create_symlink("d/target", folder_ / "link");
  Put(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Text(folder_ / "d" / "target"), "new");
  fs::create_symlink("round", folder_ / "round");
  EXPECT_THROW(AtomicFile((folder_ / "round").string()), Error);
}

TEST_F(AtomicFileTest, APipeIsWrittenThrough) {
  fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = Text(path); });
  AtomicFile file(path.string());
  EXPECT_TRUE(file.straight_through());
  file.Write("through");
  file.Commit();
  reader.join();
  EXPECT_EQ(received, "through");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFileTest, ADeviceIsWrittenThrough) {
  fs::path path = folder_ / "null";
  if (mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) fs::create_symlink("/dev/null", path);
  // In many containers a node that anybody made cannot be opened: it must stay all the same.
  try {
    Put(path, "away");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
  }
  EXPECT_TRUE(fs::is_character_file(path));
  Put("/dev/null", "away");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  AtomicFile full("/dev/full");
  full.Write("x");
  EXPECT_THROW(full.Finish(), Error);
}

TEST_F(AtomicFileTest, ASocketIsWrittenThrough) {
  std::string path = (folder_ / "socket").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  Put(path, "through");
  int connection = accept(listener, nullptr, nullptr);
  char text[16] = {};
  EXPECT_EQ(read(connection, text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  close(connection);
  close(listener);
  EXPECT_TRUE(fs::is_socket(path));
}

TEST_F(AtomicFileTest, AnOpenFileOfTheProcessIsWrittenThrough) {
  fs::path path = folder_ / "f";
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(descriptor, 0);
  struct stat before = {}, after = {};
  fstat(descriptor, &before);
  Put(Cat("/proc/self/fd/", descriptor), "through");
  EXPECT_EQ(Text(path), "through");
  EXPECT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  close(descriptor);
}

TEST_F(AtomicFileTest, AFolderAndNoNameAreErrors) {
  for (std::string path : {folder_.path().string(), (folder_ / "new/").string(), std::string()})
    EXPECT_THROW(AtomicFile{path}, Error) << path;
  fs::create_symlink(folder_.path(), folder_ / "link");
  EXPECT_THROW(AtomicFile((folder_ / "link").string()), Error);
  try {
    AtomicFile file((folder_ / "missing/f").string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(AtomicFileTest, KeepsTheModeOfWhatItReplaces) {
  for (mode_t mode : {mode_t{0600}, mode_t{0640}, mode_t{0444}}) {
    Put(folder_ / "f", "old");
    ASSERT_EQ(chmod((folder_ / "f").c_str(), mode), 0);
    Put(folder_ / "f", "new");
    EXPECT_EQ(ModeOf(folder_ / "f"), mode);
    EXPECT_EQ(Text(folder_ / "f"), "new");
  }
  mode_t mask = umask(027);
  Put(folder_ / "fresh", "new");
  umask(mask);
  EXPECT_EQ(ModeOf(folder_ / "fresh"), mode_t{0640});
}

TEST_F(AtomicFileTest, KeepsTheOwnerOfWhatItReplaces) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Put(folder_ / "f", "old");
  if (chown((folder_ / "f").c_str(), 1234, 4321) != 0) GTEST_SKIP() << "not in this container";
  Put(folder_ / "f", "new");
  struct stat facts = {};
  ASSERT_EQ(stat((folder_ / "f").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, 1234u);
  EXPECT_EQ(facts.st_gid, 4321u);
}

TEST_F(AtomicFileTest, TwoWritersOfOneNameDoNotMix) {
  std::string path = (folder_ / "f").string();
  AtomicFile one(path), other(path);
  std::string ones(200'000, '1'), others(200'000, '2');
  for (size_t at = 0; at < ones.size(); at += 1000) {
    one.Write(std::string_view(ones).substr(at, 1000));
    other.Write(std::string_view(others).substr(at, 1000));
  }
  one.Commit();
  EXPECT_EQ(Text(path), ones);
  other.Commit();
  EXPECT_EQ(Text(path), others);
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(AtomicFileTest, APlantedLinkBesideItIsNotFollowed) {
  Put(folder_ / "victim", "untouched");
  std::string path = (folder_ / "o.npz").string();
  for (std::string end : {std::string(".partial"), Cat(".part-", getpid(), "-0")})
    fs::create_symlink("victim", path + end);
  ZipWriter writer(path);
  writer.Add("a", "hello");
  writer.Finish();
  EXPECT_EQ(Text(folder_ / "victim"), "untouched");
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(ZipArchive::Open(path)->Read("a").text(), "hello");
}

TEST_F(AtomicFileTest, AKilledWriterLeavesNothing) {
  if (!HasUnnamedFiles()) GTEST_SKIP() << "this file system has no files without a name";
  Put(folder_ / "f", "old");
  pid_t child = fork();
  if (child == 0) {
    AtomicFile file((folder_ / "f").string());
    file.Write(std::string(1'000'000, 'x'));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(FileCount(), 1);
  EXPECT_EQ(Text(folder_ / "f"), "old");
}

}  // namespace
}  // namespace ferry
