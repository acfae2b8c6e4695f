#include "base/file_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"

namespace ferry {
namespace {

class ServedFiles : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/file_server_page.html";
    std::ofstream(path_) << "hello";
    server_ = std::make_unique<FileServer>(
        std::map<std::string, std::string>{{"/index.html", path_}, {"/with space", path_}, {"/gone", path_ + ".no"}},
        0);
    thread_ = std::thread([this] { server_->Serve(stop_); });
  }
  void TearDown() override {
    stop_ = true;
    thread_.join();
    std::remove(path_.c_str());
  }

  std::string Ask(const std::string& request) const {
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(descriptor, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t count; (count = recv(descriptor, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(count));
    close(descriptor);
    return answer;
  }
  std::string Get(const std::string& target, std::string host = "") const {
    if (host.empty()) host = Cat("127.0.0.1:", server_->port());
    return Ask(Cat("GET ", target, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
  }

  std::string path_;
  std::unique_ptr<FileServer> server_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(ServedFiles, AreAnsweredWithIsolation) {
  for (const char* target : {"/", "/index.html", "/index.html?model=x", "/with%20space"}) {
    const std::string answer = Get(target);
    EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << target;
    EXPECT_NE(answer.find("Content-Length: 5\r\n"), std::string::npos);
    EXPECT_NE(answer.find("Cross-Origin-Embedder-Policy: require-corp"), std::string::npos);
    EXPECT_EQ(answer.substr(answer.size() - 5), "hello");
  }
  const std::string head = Ask(Cat("HEAD / HTTP/1.1\r\nhost: localhost:", server_->port(), "\r\n\r\n"));
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
}

TEST_F(ServedFiles, NothingElseIsAnswered) {
  EXPECT_EQ(Get("/../../etc/passwd").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_EQ(Get("/%2e%2e/secret").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_EQ(Get("/gone").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_EQ(Get("/", "evil.example").rfind("HTTP/1.1 403", 0), 0u);
  EXPECT_EQ(Ask(Cat("POST / HTTP/1.1\r\nHost: 127.0.0.1:", server_->port(), "\r\n\r\n")).rfind("HTTP/1.1 405", 0), 0u);
  EXPECT_EQ(Ask("GET / HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 403", 0), 0u);
  EXPECT_EQ(Ask(std::string(20000, 'x')), "");
}

TEST(FileServer, SaysWhichPortIsTaken) {
  FileServer first({}, 0);
  EXPECT_THROW(FileServer({}, first.port()), Error);
}

}  // namespace
}  // namespace ferry
