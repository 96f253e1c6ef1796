// Random lives: whatever happens in whatever order, each request ends exactly once and nothing is
// left over.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "common/status.h"
#include "observe/logging.h"
#include "router/dispatcher.h"
#include "tests/router/fake_channel.h"
#include "tests/router/served_tiny_model.h"

namespace anchorage::router {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kMemory = 1000;
constexpr uint64_t kFirstModel = 77;
constexpr uint64_t kOtherModel = 78;

// A node that does its part in small steps. What it says waits in `outbox` until the world delivers
// it, in order, as a channel would.
class FakeNode {
 public:
  FakeNode(proto::Role role, std::string address, uint64_t model)
      : role_(role), address_(std::move(address)), model_(model) {}
  virtual ~FakeNode() = default;

  bool up() const { return channel_ != nullptr; }
  transport::ControlChannelPtr Connect() {
    channel_ = std::make_shared<FakeChannel>(role_, address_, model_);
    return channel_;
  }
  transport::ControlChannelPtr Drop() {
    outbox.clear();
    Forget();
    channel_->Close(absl::OkStatus());
    return std::exchange(channel_, nullptr);
  }
  const std::shared_ptr<FakeChannel>& channel() const { return channel_; }
  void ReadAll() {
    while (auto message = channel_->Take()) Read(*message);
  }

  virtual void Read(const proto::Envelope& message) = 0;
  virtual void Work(std::mt19937& random) = 0;
  virtual void SayState() = 0;
  virtual void Forget() = 0;

  std::deque<proto::Envelope> outbox;

 protected:
  void SayEnded(const proto::Attempt& attempt, absl::StatusCode code, const char* stage) {
    proto::Envelope message;
    *message.mutable_ended()->mutable_attempt() = attempt;
    message.mutable_ended()->set_status(static_cast<int>(code));
    message.mutable_ended()->set_stage(stage);
    outbox.push_back(std::move(message));
  }

 private:
  const proto::Role role_;
  const std::string address_;
  const uint64_t model_;
  std::shared_ptr<FakeChannel> channel_;
};

class FakeDecode : public FakeNode {
 public:
  FakeDecode(std::string address, uint64_t model)
      : FakeNode(proto::ROLE_DECODE, std::move(address), model) {}

  void Read(const proto::Envelope& message) override {
    if (message.has_cancel()) {
      sequences_.erase(message.cancel().attempt().request());
      SayEnded(message.cancel().attempt(), absl::StatusCode::kCancelled, "decode");
    }
    if (!message.has_reserve()) return;
    const proto::Reserve& reserve = message.reserve();
    const int64_t bytes = reserve.prompt_tokens();  // one byte per token makes the sums plain
    proto::Envelope answer;
    if (bytes > Free()) {
      *answer.mutable_refused()->mutable_attempt() = reserve.attempt();
      answer.mutable_refused()->set_needed_bytes(bytes);
      answer.mutable_refused()->set_headroom_bytes(Free());
    } else {
      sequences_[reserve.attempt().request()] = {reserve.attempt(), bytes, reserve.max_new(), 0};
      *answer.mutable_granted()->mutable_attempt() = reserve.attempt();
      answer.mutable_granted()->set_bytes(bytes);
      answer.mutable_granted()->set_data_address("d");
    }
    outbox.push_back(std::move(answer));
  }

  // Some sequence makes a token, twice the same one now and then, or fails.
  void Work(std::mt19937& random) override {
    if (sequences_.empty()) return;
    auto chosen = std::next(sequences_.begin(), random() % sequences_.size());
    Sequence& sequence = chosen->second;
    if (random() % 40 == 0) {
      SayEnded(sequence.attempt, absl::StatusCode::kDataLoss, "transfer");
      sequences_.erase(chosen);
      return;
    }
    if (!landed_.contains(chosen->first)) return;
    proto::Envelope message;
    proto::Tokens& tokens = *message.mutable_tokens();
    *tokens.mutable_attempt() = sequence.attempt;
    const bool again = sequence.next > 0 && random() % 10 == 0;
    tokens.set_first_index(again ? sequence.next - 1 : sequence.next);
    if (again) tokens.add_ids(260);
    tokens.add_ids(260);
    ++sequence.next;
    const bool last = sequence.next == sequence.max_new || random() % 30 == 0;
    if (last) tokens.set_finish(proto::FINISH_LENGTH);
    outbox.push_back(std::move(message));
    if (last) sequences_.erase(chosen);
  }
  void SayState() override {
    proto::Envelope message;
    message.mutable_state()->set_ready(true);
    message.mutable_state()->set_memory_limit_bytes(kMemory);
    message.mutable_state()->set_memory_used_bytes(kMemory - Free());
    outbox.push_back(std::move(message));
  }
  void Forget() override { sequences_.clear(); }
  void Land(uint64_t request) { landed_.insert(request); }
  bool idle() const { return sequences_.empty(); }

 private:
  struct Sequence {
    proto::Attempt attempt;
    int64_t bytes = 0;
    int64_t max_new = 0;
    int64_t next = 0;
  };
  int64_t Free() const {
    int64_t free = kMemory;
    for (const auto& [id, sequence] : sequences_) free -= sequence.bytes;
    return free;
  }
  std::map<uint64_t, Sequence> sequences_;
  std::set<uint64_t> landed_;
};

class FakePrefill : public FakeNode {
 public:
  FakePrefill(std::string address, uint64_t model, std::vector<FakeDecode*> decodes)
      : FakeNode(proto::ROLE_PREFILL, std::move(address), model), decodes_(std::move(decodes)) {}

  void Read(const proto::Envelope& message) override {
    if (message.has_enqueue()) {
      jobs_[message.enqueue().attempt().request()] = {message.enqueue().attempt(),
                                                      message.enqueue().max_new(), Stage::kQueued};
    } else if (message.has_start()) {
      const auto job = jobs_.find(message.start().attempt().request());
      if (job == jobs_.end()) {
        SayEnded(message.start().attempt(), absl::StatusCode::kNotFound, "prefill");
      } else {
        job->second.stage = Stage::kRunning;
      }
    } else if (message.has_cancel()) {
      jobs_.erase(message.cancel().attempt().request());
      SayEnded(message.cancel().attempt(), absl::StatusCode::kCancelled, "prefill");
    }
  }
  void Work(std::mt19937& random) override {
    if (jobs_.empty()) return;
    auto chosen = std::next(jobs_.begin(), random() % jobs_.size());
    Job& job = chosen->second;
    proto::Envelope message;
    if (random() % 40 == 0) {
      SayEnded(job.attempt, absl::StatusCode::kInternal, "prefill");
      jobs_.erase(chosen);
    } else if (job.stage == Stage::kQueued) {
      job.stage = Stage::kTaken;
      *message.mutable_taken()->mutable_attempt() = job.attempt;
      outbox.push_back(std::move(message));
    } else if (job.stage == Stage::kRunning) {
      *message.mutable_prefill_done()->mutable_attempt() = job.attempt;
      message.mutable_prefill_done()->set_first_token(260);
      if (job.max_new == 1) message.mutable_prefill_done()->set_finish(proto::FINISH_LENGTH);
      if (job.max_new > 1 && random() % 8 == 0) {
        message.mutable_prefill_done()->set_finish(proto::FINISH_STOP);
      } else {
        for (FakeDecode* decode : decodes_) decode->Land(chosen->first);
      }
      outbox.push_back(std::move(message));
      jobs_.erase(chosen);
    }
  }
  void SayState() override {
    proto::Envelope message;
    message.mutable_state()->set_ready(true);
    message.mutable_state()->set_queued_tokens(static_cast<int64_t>(jobs_.size()));
    outbox.push_back(std::move(message));
  }
  void Forget() override { jobs_.clear(); }
  bool idle() const { return jobs_.empty(); }

 private:
  enum class Stage { kQueued, kTaken, kRunning };
  struct Job {
    proto::Attempt attempt;
    int64_t max_new = 0;
    Stage stage = Stage::kQueued;
  };
  const std::vector<FakeDecode*> decodes_;
  std::map<uint64_t, Job> jobs_;
};

class World {
 public:
  // The nodes b serve `second_model`, those a kFirstModel.
  World(unsigned seed, uint64_t second_model) : random_(seed), second_model_(second_model) {
    DispatcherOptions options;
    options.queue_size = 12;
    options.queue_timeout_ms = 2'000;
    options.request_timeout_ms = 6'000;
    proto::Identity identity;
    identity.set_wire_version(1);
    identity.set_plan_fingerprint(88);
    dispatcher_ = std::make_unique<Dispatcher>(options, identity, &ServedTinyModel().tokenizer(),
                                               &clock_, &metrics_);
    for (FakeNode* node : nodes_) Up(*node);
  }

  void Step() {
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
        Submit();
        break;
      case 3:
        if (!ids_.empty()) dispatcher_->Cancel(ids_[random_() % ids_.size()]);
        break;
      case 4:
        clock_.AdvanceNs(static_cast<int64_t>(random_() % 200) * kNsPerMs);
        dispatcher_->Tick();
        break;
      case 5:
        if (random_() % 12 == 0) DropOrRaise(Any());
        break;
      case 6:
        if (FakeNode& node = Any(); node.up()) node.SayState();
        break;
      default:
        if (FakeNode& node = Any(); node.up()) {
          node.ReadAll();
          node.Work(random_);
          Deliver(node, random_() % 3);
        }
    }
  }

  // Lets everything come to its end, and looks at what is left.
  void Settle() {
    for (FakeNode* node : nodes_) {
      if (!node->up()) Up(*node);
    }
    for (int round = 0; round < 400; ++round) {
      for (FakeNode* node : nodes_) {
        node->ReadAll();
        node->Work(random_);
        node->SayState();
        Deliver(*node, node->outbox.size());
      }
      clock_.AdvanceNs(50 * kNsPerMs);
      dispatcher_->Tick();
    }
    EXPECT_EQ(dispatcher_->running(), 0);
    EXPECT_EQ(dispatcher_->closing(), 0);
    EXPECT_EQ(dispatcher_->ledger().held_bytes(), 0);
    EXPECT_EQ(dispatcher_->ledger().promised_bytes(), 0);
    for (const auto& sink : sinks_) EXPECT_EQ(sink->ends, 1);
    EXPECT_TRUE(decode_a_.idle() && decode_b_.idle());
    EXPECT_TRUE(prefill_a_.idle() && prefill_b_.idle());
  }
  int CountEnds(Outcome::Kind kind) const {
    int count = 0;
    for (const auto& sink : sinks_) count += sink->outcome && sink->outcome->kind == kind;
    return count;
  }

 private:
  FakeNode& Any() { return *nodes_[random_() % nodes_.size()]; }
  transport::ControlHandler& HandlerOf(const FakeNode& node) {
    const bool is_decode = &node == &decode_a_ || &node == &decode_b_;
    return is_decode ? dispatcher_->decode_handler() : dispatcher_->prefill_handler();
  }
  void Up(FakeNode& node) {
    HandlerOf(node).OnUp(node.Connect());
    node.SayState();
  }
  void DropOrRaise(FakeNode& node) {
    if (node.up()) {
      HandlerOf(node).OnDown(node.Drop(), Unavailable("gone"));
    } else {
      Up(node);
    }
  }
  void Deliver(FakeNode& node, size_t count) {
    for (size_t i = 0; i < count && !node.outbox.empty(); ++i) {
      const proto::Envelope message = std::move(node.outbox.front());
      node.outbox.pop_front();
      HandlerOf(node).OnMessage(node.channel(), message);
    }
  }
  void Submit() {
    RequestSpec spec;
    spec.prompt_ids.assign(1 + random_() % 500, 260);
    spec.max_new = 1 + static_cast<int64_t>(random_() % 12);
    spec.kv_bytes = spec.max_new == 1 ? 0 : static_cast<int64_t>(spec.prompt_ids.size());
    spec.sampling.set_repetition_penalty(1);
    auto sink = std::make_shared<RecordingSink>();
    const auto id = dispatcher_->Submit(std::move(spec), sink);
    if (!id.ok()) {
      EXPECT_EQ(sink->ends, 0);
      return;
    }
    ids_.push_back(*id);
    sinks_.push_back(std::move(sink));
  }

  std::mt19937 random_;
  const uint64_t second_model_;
  FakeClock clock_;
  observe::MetricsRegistry registry_;
  RouterMetrics metrics_{&registry_, "tiny"};
  std::unique_ptr<Dispatcher> dispatcher_;
  FakeDecode decode_a_{"decode:a", kFirstModel};
  FakeDecode decode_b_{"decode:b", second_model_};
  FakePrefill prefill_a_{"prefill:a", kFirstModel, {&decode_a_, &decode_b_}};
  FakePrefill prefill_b_{"prefill:b", second_model_, {&decode_a_, &decode_b_}};
  const std::vector<FakeNode*> nodes_ = {&decode_a_, &decode_b_, &prefill_a_, &prefill_b_};
  std::vector<uint64_t> ids_;
  std::vector<std::shared_ptr<RecordingSink>> sinks_;
};

TEST(DispatcherPropertyTest, EveryRequestEndsOnceAndNothingIsLeft) {
  observe::StartLogging("test", observe::LogLevel::kOff);
  int finished = 0;
  int failed = 0;
  int cancelled = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, seed % 2 == 0 ? kFirstModel : kOtherModel);
    for (int step = 0; step < 3000; ++step) world.Step();
    world.Settle();
    finished += world.CountEnds(Outcome::Kind::kFinished);
    failed += world.CountEnds(Outcome::Kind::kFailed);
    cancelled += world.CountEnds(Outcome::Kind::kCancelled);
  }
  // The lives were of all kinds.
  EXPECT_GT(finished, 500);
  EXPECT_GT(failed, 500);
  EXPECT_GT(cancelled, 100);
}

}  // namespace
}  // namespace anchorage::router
