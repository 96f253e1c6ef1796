#include "eval/ruler/http_answerer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

namespace anchorage::eval::ruler {
namespace {

// Resets its first connection and answers the second.
class ResettingServer {
 public:
  ResettingServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 2), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }

  // An accept that nobody comes for ends too.
  ~ResettingServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  std::string port() const { return std::to_string(port_); }

 private:
  void Serve() const {
    const int broken = accept(listener_, nullptr, nullptr);
    const linger reset = {1, 0};
    setsockopt(broken, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(broken);
    const int connection = accept(listener_, nullptr, nullptr);
    char request[4096];
    if (recv(connection, request, sizeof(request), 0) > 0) {
      constexpr std::string_view kReply =
          "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"choices\": [{\"text\": \"yes\"}]}";
      send(connection, kReply.data(), kReply.size(), MSG_NOSIGNAL);
      shutdown(connection, SHUT_WR);  // what is not read yet must not reset the reply
      while (recv(connection, request, sizeof(request), 0) > 0) {
      }
    }
    close(connection);
  }

  const int listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST(HttpAnswererTest, AsksAgainWhereTheConnectionBreaks) {
  const ResettingServer server;
  HttpAnswerer answerer({{"127.0.0.1", server.port(), "/v1"}, "model", "label"});
  Sample sample = {};
  sample.prompt.ids = {1, 2};
  const auto answers = answerer.Ask(sample, {"label"});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->front().text, "yes");
}

TEST(HttpAnswererTest, GivesUpAfterItsTries) {
  HttpAnswererOptions options{{"127.0.0.1", "1", "/v1"}, "model", "label"};
  options.max_tries = 1;
  EXPECT_TRUE(absl::IsUnavailable(HttpAnswerer(options).Ask(Sample(), {"label"}).status()));
}

}  // namespace
}  // namespace anchorage::eval::ruler
