// Between the control channel's messages and the types that the cores speak.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "kv/plan/plan.h"
#include "model/finish.h"
#include "model/model.h"
#include "model/sampler.h"
#include "proto/worker.pb.h"

namespace anchorage::worker {

AttemptId FromProto(const proto::Attempt& attempt);
proto::Attempt ToProto(AttemptId id, const std::string& request_id);

model::SamplingParams FromProto(const proto::Sampling& sampling);
proto::Finish ToProto(model::Finish finish);

// What this process is, for the handshake.
proto::Identity MakeIdentity(const model::Model& model, const kv::PlanOptions& options);

// FailedPrecondition says which of wire version, model and KV plan differ.
absl::Status CheckSameIdentity(const proto::Identity& own, const proto::Identity& peer);

// A router's Hello: right role, and the same identity wherever it names one (a router that has not
// met a worker yet knows no model fingerprint and sends 0).
absl::Status CheckRouterHello(const proto::Identity& own, const proto::Hello& hello);

// "this attempt is over here".
proto::Envelope EndedMessage(AttemptId id, const std::string& request_id,
                             const absl::Status& status, const char* stage);

}  // namespace anchorage::worker
