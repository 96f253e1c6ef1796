// The decode node without its sockets: reservations, landings, the batch and its step loop.
//
//   Reserve -> Announce, Quiet, Verify (each layer) -> Close -> RunStep ... -> a terminal state
//
// Every attempt that was granted ends in exactly one OnEnded or in one token with a finish, and its
// memory is back in the arena (or in quarantine until the transport is quiet) by then.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/batch_step.h"
#include "decode_node/core/landing_table.h"
#include "decode_node/core/sequence.h"
#include "kernels/residual.h"
#include "kernels/stream.h"
#include "kv/plan/plan.h"
#include "model/model.h"

namespace anchorage::decode {

struct EngineOptions {
  int64_t kv_limit_bytes = int64_t{1} << 30;
  int64_t lease_ns = 10'000'000'000;
  kv::PlanOptions plan;
};

// The code packing that this build's decode kernels read.
inline constexpr kernels::CodePacking kCodePacking = kernels::CodePacking::kPlanar;

struct ReserveAnswer {
  absl::Status status;  // OK: granted
  uint64_t nonce = 0;
  int64_t bytes = 0;           // needed, also when refused
  int64_t headroom_bytes = 0;  // before this request
  bool never = false;          // more than the whole limit: no waiting will help
};

// Where results go. Calls come from whichever thread caused them (the step loop, a canceller, the
// lease timer); they must not block or call back into the engine.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  // A sequence joins the batch, `waited_ns` after all its layers were there.
  virtual void OnJoin(int64_t waited_ns) = 0;
  // Token `index` of the request (0 = the one prefill sampled). `finish` is set on the last.
  virtual void OnToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) = 0;
  // The attempt is over without a finish. Cancelled when it was asked for.
  virtual void OnEnded(AttemptId id, const absl::Status& status, const char* stage) = 0;
  // After each step, for metrics.
  virtual void OnStep(int64_t batch_size, int64_t duration_ns) = 0;
};

// Thread-safe; RunStep is for one thread. `model`, `clock`, `stream` and `listener` must outlive
// it.
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const model::Model& model,
                                                        std::vector<int32_t> model_stop_ids,
                                                        const EngineOptions& options,
                                                        const Clock& clock, kernels::Stream& stream,
                                                        EngineListener& listener);
  ~Engine();

  // Grants or refuses the exact bytes. InvalidArgument: lengths or sampling make no sense.
  ReserveAnswer Reserve(SequenceRequest request);

  // Its prefill is still at work: the lease starts anew. Nothing where no attempt is landing.
  void RenewLease(AttemptId id) { landings_.Renew(id); }

  // The landing of one layer: see LandingTable. Verify checks what Quiet handed out (checksum,
  // then every index in it) on the calling thread and may take a while.
  absl::StatusOr<RunningLanding> Announce(const LayerAnnouncement& announcement);
  std::optional<LandedLayer> Quiet(uint64_t token, const absl::Status& landed);
  absl::Status Verify(uint64_t token, const LandedLayer& landed);

  // All layers are there: the sequence joins the batch before the next step and its first token is
  // announced to the listener.
  absl::Status Close(AttemptId id, uint64_t nonce, int32_t first_token);

  // Ends an attempt wherever it is; OnEnded(Cancelled) follows, from the step loop if it is in the
  // batch. False: nothing known by that id (it has ended, or never was).
  bool Cancel(AttemptId id);

  // Ends what ran out of its lease; false when nothing did. Call it from a timer.
  bool ExpireLeases();

  // Runs one step over the batch. False when there was nothing to do.
  bool RunStep();

  // Blocks until there is something for RunStep, `timeout_ms` is over, or Wake was called.
  void WaitForWork(int64_t timeout_ms);
  void Wake();

  // Regions that are taking bytes for attempts which have ended.
  std::vector<uint64_t> OverdueTokens() const { return landings_.OverdueTokens(); }

  ArenaUsage usage() const { return arena_.usage(); }
  int64_t active_sequences() const { return active_.load(); }
  int64_t landings() const { return landings_.landings(); }
  // Requests that would fit at the mean size of those that are here (of a context-long one when
  // there are none).
  int64_t sequence_capacity() const;
  // Clock time at which the step loop last showed that it is alive.
  int64_t last_step_ns() const { return last_step_ns_.load(); }
  const BatchStep& step() const { return *step_; }

 private:
  Engine(const model::Model& model, const EngineOptions& options, const Clock& clock,
         EngineListener& listener, std::unique_ptr<BatchStep> step);

  void JoinReady();
  void DropCancelled();
  void Retire(AttemptId id);
  void ReportFailedLandings();

  const model::Model& model_;
  const EngineOptions options_;
  const Clock& clock_;
  EngineListener& listener_;
  Arena arena_;
  LandingTable landings_;
  std::unique_ptr<BatchStep> step_;

  mutable Mutex mutex_;
  CondVar work_;
  bool woken_ GUARDED_BY(mutex_) = false;
  // What was asked for, from the grant until the sequence is made or the attempt ends.
  std::unordered_map<AttemptId, SequenceRequest> requests_ GUARDED_BY(mutex_);
  struct Ready {
    std::unique_ptr<Sequence> sequence;
    int64_t since_ns = 0;
  };
  std::vector<Ready> ready_ GUARDED_BY(mutex_);
  std::unordered_map<AttemptId, Sequence*> in_batch_ GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<Sequence>> batch_;  // the step loop's own
  std::atomic<int64_t> active_{0};
  std::atomic<int64_t> last_step_ns_{0};
};

}  // namespace anchorage::decode
