// A request from C++ over a plain socket: infer HOST PORT MODEL INPUT COUNT sends ones of FP32 as bytes.
//   g++ -std=c++20 infer.cpp -o infer
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int count, char** words) {
  if (count != 6) return std::fprintf(stderr, "usage: infer HOST PORT MODEL INPUT COUNT\n"), 2;
  const std::vector<float> values(std::strtoul(words[5], nullptr, 10), 1.0f);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const std::string json = std::string(R"({"inputs":[{"name":")") + words[4] + R"(","datatype":"FP32","shape":[1,)" +
                           words[5] + R"(],"parameters":{"binary_data_size":)" + std::to_string(bytes.size()) + "}}]}";
  const std::string request =
      std::string("POST /v2/models/") + words[3] + "/infer HTTP/1.1\r\nHost: " + words[1] +
      "\r\nConnection: close\r\nInference-Header-Content-Length: " + std::to_string(json.size()) +
      "\r\nContent-Length: " + std::to_string(json.size() + bytes.size()) + "\r\n\r\n" + json + bytes;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(words[1], words[2], &hints, &found) != 0) return std::fprintf(stderr, "no such host\n"), 3;
  const int socket_number = socket(found->ai_family, SOCK_STREAM, 0);
  if (connect(socket_number, found->ai_addr, found->ai_addrlen) != 0) return std::perror("connect"), 3;
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t part = write(socket_number, request.data() + sent, request.size() - sent);
    if (part <= 0) return std::perror("write"), 3;
    sent += static_cast<size_t>(part);
  }
  std::string answer;
  char buffer[4096];
  for (ssize_t got; (got = read(socket_number, buffer, sizeof(buffer))) > 0;)
    answer.append(buffer, static_cast<size_t>(got));
  const size_t body = answer.find("\r\n\r\n");
  std::printf("%s\n", body == std::string::npos ? answer.c_str() : answer.c_str() + body + 4);
  return answer.compare(0, 12, "HTTP/1.1 200") == 0 ? 0 : 1;
}
