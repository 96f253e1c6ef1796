#include "router/name_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "transport/event_loop.h"

namespace anchorage::router {
namespace {

using ::testing::ElementsAre;
using Answer = absl::StatusOr<std::vector<std::string>>;

Answer Resolve(const std::string& name) {
  transport::EventLoop loop;
  NameResolver resolver(loop.io());
  std::optional<Answer> answer;
  resolver.Resolve(name, [&](Answer addresses) {
    answer = std::move(addresses);
    loop.Stop();
  });
  EXPECT_FALSE(answer.has_value()) << "called from inside";
  loop.Run();
  return *std::move(answer);
}

TEST(NameResolverTest, ResolvesNamesAndKeepsNumbers) {
  EXPECT_THAT(*Resolve("127.0.0.3:7100"), ElementsAre("127.0.0.3:7100"));
  EXPECT_THAT(*Resolve("[::1]:7100"), ElementsAre("[::1]:7100"));
  EXPECT_THAT(*Resolve("localhost:7100"), ElementsAre("127.0.0.1:7100"));  // not ::1 as well
}

TEST(NameResolverTest, SaysThatAnAddressIsNone) {
  EXPECT_EQ(Resolve("localhost").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(NameResolverTest, GoneItAnswersNobody) {
  transport::EventLoop loop;
  bool called = false;
  {
    NameResolver resolver(loop.io());
    resolver.Resolve("127.0.0.1:1", [&](const Answer&) { called = true; });
    resolver.Resolve("nonsense", [&](const Answer&) { called = true; });
  }
  loop.After(50, [&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace anchorage::router
