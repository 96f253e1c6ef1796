#include "observe/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "common/status.h"
#include "observe/host_port.h"

namespace anchorage::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using tcp = boost::asio::ip::tcp;

class ProbesTest : public ::testing::Test {
 protected:
  ProbesTest() {
    ProbeOptions options;
    options.listen = "127.0.0.1:0";
    options.timeout_ms = 300;
    options.max_connections = 4;
    ProbeChecks checks;
    checks.live = [] { return absl::OkStatus(); };
    checks.ready = [this] { return ready_ ? absl::OkStatus() : Unavailable("draining now"); };
    server_ = *ProbeServer::Start(options, &registry_, std::move(checks));
  }

  tcp::socket Connect() {
    tcp::socket socket(io_);
    socket.connect(
        {boost::asio::ip::make_address("127.0.0.1"), ParseHostPort(server_->address())->port});
    return socket;
  }

  // Sends `request` and reads until the server closes.
  std::string Exchange(const std::string& request) {
    tcp::socket socket = Connect();
    boost::system::error_code error;
    boost::asio::write(socket, boost::asio::buffer(request), error);
    std::string answer;
    boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
    return answer;
  }
  std::string Get(const std::string& path) {
    return Exchange("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  }

  boost::asio::io_context io_;
  MetricsRegistry registry_;
  std::atomic<bool> ready_{true};
  std::unique_ptr<ProbeServer> server_;
};

TEST_F(ProbesTest, AnswersReadyAndLiveApart) {
  EXPECT_THAT(Get("/ready"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/health?x=1"), StartsWith("HTTP/1.1 200"));
  ready_ = false;
  const std::string answer = Get("/ready");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, HasSubstr("draining now"));
  EXPECT_THAT(Get("/health"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/live"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ProbesTest, ServesMetricsAndVersion) {
  registry_.AddCounter("x_total", "X.").Add();
  EXPECT_THAT(Get("/metrics"), HasSubstr("x_total 1\n"));
  EXPECT_THAT(Get("/version"), HasSubstr("\"version\""));
}

TEST_F(ProbesTest, AnswersHeadWithoutABodyAndKeepsTheConnection) {
  const std::string answer = Exchange(
      "HEAD /live HTTP/1.1\r\nHost: a\r\n\r\nGET /nope HTTP/1.1\r\nHost: a\r\nConnection: "
      "close\r\n\r\n");
  const size_t second = answer.find("HTTP/1.1 404");
  ASSERT_NE(second, std::string::npos) << answer;
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(answer.substr(second - 4, 4), "\r\n\r\n");
}

TEST_F(ProbesTest, RefusesOtherMethodsBodiesAndGarbage) {
  EXPECT_THAT(Exchange("POST /live HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Exchange("\r\nnot http at all\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Exchange("GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'a') + "\r\n\r\n"),
              ::testing::AnyOf(StartsWith("HTTP/1.1 400"), ::testing::IsEmpty()));
  EXPECT_THAT(Get("/live"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ProbesTest, SilentConnectionsAreClosedAndDoNotShutOthersOut) {
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(Connect());
  for (tcp::socket& socket : silent) {
    char byte = 0;
    boost::system::error_code error;
    socket.read_some(boost::asio::buffer(&byte, 1), error);
    EXPECT_TRUE(error);
  }
  EXPECT_THAT(Get("/live"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ProbesTest, SaysWhyItCannotListen) {
  const auto again = ProbeServer::Start({.listen = server_->address()}, &registry_, ProbeChecks());
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ProbeServer::Start({.listen = "nonsense"}, &registry_, ProbeChecks()).ok());
}

}  // namespace
}  // namespace anchorage::observe
