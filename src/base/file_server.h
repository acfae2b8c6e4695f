// Serves a fixed set of files to the browser of whoever sits at this machine: over HTTP, to the loopback address alone.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace ferry {

class FileServer {
 public:
  // The files by the paths of their URLs, "/index.html". Port 0: any that is free. Throws kIo.
  FileServer(std::map<std::string, std::string> files, int port);
  ~FileServer();
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  int port() const { return port_; }
  // Until `stop` is set, which is looked at twice a second.
  void Serve(const std::atomic<bool>& stop);

 private:
  struct Visitor;
  void Accept();
  void Answer(Visitor& visitor) const;
  std::string Head(std::string_view request, Visitor& visitor) const;

  const std::map<std::string, std::string> files_;
  int listener_ = -1;
  int port_ = 0;
  std::map<int, std::unique_ptr<Visitor>> visitors_;
};

}  // namespace ferry
