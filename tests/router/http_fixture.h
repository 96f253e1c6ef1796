// An HTTP front over a scripted engine, served by a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include "observe/host_port.h"
#include "observe/logging.h"
#include "router/http_front.h"
#include "router/json.h"
#include "tests/router/raw_client.h"
#include "tests/router/scripted_engine.h"
#include "tests/router/served_tiny_model.h"
#include "transport/event_loop.h"

namespace anchorage::router {

class HttpFixture : public ::testing::Test {
 protected:
  using Mode = ScriptedEngine::Mode;

  HttpFixture() {
    observe::StartLogging("test", observe::LogLevel::kOff);
    options_.listen = "127.0.0.1:0";
    options_.max_body_bytes = 256 << 10;
    options_.header_timeout_ms = 300;
    options_.body_timeout_ms = 300;
    options_.idle_timeout_ms = 2'000;
    options_.write_timeout_ms = 300;
  }
  ~HttpFixture() override {
    if (front_ == nullptr) return;
    OnLoop([this] { front_->Stop(); });
    loop_.Post([this] { loop_.Stop(); });
    thread_.join();
    EXPECT_EQ(front_->connections(), 0);
  }

  void Start() {
    auto front = HttpFront::Start(loop_.io(), options_, &ServedTinyModel(), SpecLimits(), &engine_,
                                  &Clock::Real(), &metrics_);
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    port_ = observe::ParseHostPort(front_->address())->port;
    thread_ = std::thread([this] { loop_.Run(); });
  }
  template <typename Function>
  auto OnLoop(Function function) -> decltype(function()) {
    std::promise<decltype(function())> done;
    loop_.Post([&] {
      if constexpr (std::is_void_v<decltype(function())>) {
        function();
        done.set_value();
      } else {
        done.set_value(function());
      }
    });
    return done.get_future().get();
  }
  // Waits for something that another thread is about to do.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string Exchange(std::string_view request) {
    RawClient client(port_);
    client.Send(request);
    return client.ReadAll();
  }
  static std::string Request(std::string_view method, std::string_view target,
                             std::string_view body = "", std::string_view headers = "",
                             bool close = true) {
    return absl::StrFormat("%s %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %d\r\n\r\n%s", method,
                           target, headers, close ? "Connection: close\r\n" : "", body.size(),
                           body);
  }
  static std::string Chat(std::string_view fields = "", std::string_view headers = "",
                          bool close = true) {
    return Request("POST", "/v1/chat/completions",
                   absl::StrFormat(R"({"messages":[{"role":"user","content":"hi"}]%s})", fields),
                   headers, close);
  }
  static std::string BodyOf(const std::string& response) {
    const size_t end = response.find("\r\n\r\n");
    return end == std::string::npos ? "" : response.substr(end + 4);
  }
  // The error of a response whose body must be a whole and well-formed one.
  static ParsedJson ErrorOf(const std::string& response) {
    const auto body = ParseJson(BodyOf(response));
    EXPECT_TRUE(body.ok()) << response;
    if (!body.ok() || !body->contains("error")) return ParsedJson::object();
    for (const char* key : {"message", "type", "param", "code"}) {
      EXPECT_TRUE((*body)["error"].contains(key)) << response;
    }
    return (*body)["error"];
  }
  // Undoes the chunked encoding, which must be complete.
  static std::string Dechunk(std::string_view body) {
    std::string data;
    while (true) {
      const size_t line = body.find("\r\n");
      if (line == std::string_view::npos) {
        ADD_FAILURE() << "cut off";
        return data;
      }
      const size_t size = std::stoul(std::string(body.substr(0, line)), nullptr, 16);
      if (size == 0) return data;
      data += body.substr(line + 2, size);
      body.remove_prefix(line + 2 + size + 2);
    }
  }
  static std::string StreamOf(const std::string& response) { return Dechunk(BodyOf(response)); }

  HttpOptions options_;
  transport::EventLoop loop_;
  ScriptedEngine engine_{&loop_};
  observe::MetricsRegistry registry_;
  RouterMetrics metrics_{&registry_, "tiny"};
  std::unique_ptr<HttpFront> front_;
  std::thread thread_;
  uint16_t port_ = 0;
};

}  // namespace anchorage::router
