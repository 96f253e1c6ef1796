#include "prefill_node/engine_thread.h"

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/prefill_node/fixture.h"

namespace anchorage::prefill {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLong = 900;
constexpr int64_t kShort = 100;

class EngineThreadTest : public PrefillFixture {
 protected:
  // Ends `expected` jobs and tells their requests' numbers in the order of their ends. `when` runs
  // on the engine's thread at the end of each layer of a prompt.
  void Serve(size_t expected, std::function<void(EngineThread&, const ScheduleEvent&)> when,
             const std::vector<std::shared_ptr<Job>>& jobs) {
    kernels::Stream stream(1);
    EngineOptions options = Options(kv::Layout::kCompact);
    EngineThread* thread = nullptr;
    options.observer = [&](const ScheduleEvent& event) {
      if (event.kind == ScheduleEvent::Kind::kLayerDone) when(*thread, event);
    };
    auto engine = Engine::Create(*model_, options, accountant_, Clock::Real(), stream);
    ASSERT_TRUE(engine.ok()) << engine.status();
    std::promise<void> all_done;
    EngineThread running(
        **engine, [this] { started_after_.push_back(ended_.size()); },
        [&](const std::shared_ptr<Job>& job) {
          EXPECT_TRUE(job->result.status.ok()) << job->result.status;
          ended_.push_back(job->id.request);
          if (ended_.size() == expected) all_done.set_value();
        });
    thread = &running;
    for (const auto& job : jobs) running.Submit(job);
    all_done.get_future().wait();
  }

  std::shared_ptr<Job> MakeJob(uint64_t number, int64_t tokens) const {
    auto job = std::make_shared<Job>();
    job->id.request = number;
    job->prompt.prompt_ids = Prompt(tokens, static_cast<uint32_t>(number));
    return job;
  }

  std::vector<uint64_t> ended_;
  std::vector<size_t> started_after_;  // for each batch, how many jobs had ended when it started
};

TEST_F(EngineThreadTest, ShortPromptsOvertakeALongOneAtALayerBoundary) {
  std::vector<int64_t> layers;  // tokens of each layer's prompt, in the order in which they ended
  Serve(3,
        [&](EngineThread& thread, const ScheduleEvent& event) {
          layers.push_back(event.tokens);
          if (layers.size() > 1) return;
          thread.Submit(MakeJob(2, kShort));
          thread.Submit(MakeJob(3, kShort));
        },
        {MakeJob(1, kLong)});
  EXPECT_THAT(ended_, ElementsAre(2, 3, 1));
  ASSERT_GE(layers.size(), 3u);
  EXPECT_EQ(layers[0], kLong);
  EXPECT_EQ(layers[1], kShort);
  EXPECT_EQ(layers.back(), kLong);
}

TEST_F(EngineThreadTest, ALongPromptWaitsForItsTurn) {
  bool submitted = false;
  Serve(3,
        [&](EngineThread& thread, const ScheduleEvent&) {
          if (std::exchange(submitted, true)) return;
          thread.Submit(MakeJob(2, kLong));
          thread.Submit(MakeJob(3, kShort));
        },
        {MakeJob(1, kLong)});
  EXPECT_THAT(ended_, ElementsAre(3, 1, 2));
  EXPECT_THAT(started_after_, ElementsAre(0, 0, 2));
}

TEST_F(EngineThreadTest, TellsWhetherWhatWaitsIsShort) {
  bool submitted = false;
  Serve(3,
        [&](EngineThread& thread, const ScheduleEvent&) {
          if (std::exchange(submitted, true)) return;
          EXPECT_FALSE(thread.has_waiting());
          thread.Submit(MakeJob(2, kLong));
          EXPECT_TRUE(thread.has_waiting());
          EXPECT_FALSE(thread.has_waiting_short());
          thread.Submit(MakeJob(3, kShort));
          EXPECT_TRUE(thread.has_waiting_short());
        },
        {MakeJob(1, kLong)});
}

TEST_F(EngineThreadTest, NothingOvertakesShortPrompts) {
  bool submitted = false;
  Serve(2,
        [&](EngineThread& thread, const ScheduleEvent&) {
          if (!std::exchange(submitted, true)) thread.Submit(MakeJob(2, kShort));
        },
        {MakeJob(1, kShort)});
  EXPECT_THAT(ended_, ElementsAre(1, 2));
}

TEST_F(EngineThreadTest, ALongPromptAdvancesHoweverManyOvertakeIt) {
  const int64_t num_layers = model_->config().num_layers;
  const int64_t most_short = num_layers + 2;
  int64_t next = 2;
  int64_t long_layers = 0;
  int64_t overtook = 0;
  Serve(static_cast<size_t>(1 + most_short),
        [&](EngineThread& thread, const ScheduleEvent& event) {
          if (event.tokens == kLong) {
            EXPECT_EQ(overtook, long_layers++) << "more than one batch at a boundary";
            if (long_layers > 1) return;
          } else if (event.layer != num_layers - 1) {
            return;
          } else {
            ++overtook;
          }
          if (next < 2 + most_short) {  // the next is there before this one has ended
            thread.Submit(MakeJob(static_cast<uint64_t>(next++), kShort));
          }
        },
        {MakeJob(1, kLong)});
  EXPECT_EQ(ended_[static_cast<size_t>(num_layers - 1)], 1u);
}

}  // namespace
}  // namespace anchorage::prefill
