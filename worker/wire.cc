#include "worker/wire.h"

#include "common/status.h"
#include "common/wire_version.h"
#include "kv/plan_flags.h"

namespace anchorage::worker {

AttemptId FromProto(const proto::Attempt& attempt) {
  return {attempt.request(), attempt.generation()};
}

proto::Attempt ToProto(AttemptId id, const std::string& request_id) {
  proto::Attempt attempt;
  attempt.set_request(id.request);
  attempt.set_generation(id.generation);
  attempt.set_request_id(request_id);
  return attempt;
}

model::SamplingParams FromProto(const proto::Sampling& sampling) {
  model::SamplingParams params;
  params.temperature = sampling.temperature();
  params.top_k = sampling.top_k();
  params.top_p = sampling.top_p() == 0 ? 1 : sampling.top_p();
  params.min_p = sampling.min_p();
  params.seed = sampling.seed();
  params.repetition_penalty =
      sampling.repetition_penalty() == 0 ? 1 : sampling.repetition_penalty();
  params.presence_penalty = sampling.presence_penalty();
  params.frequency_penalty = sampling.frequency_penalty();
  for (const auto& [token, bias] : sampling.logit_bias())
    params.logit_bias.emplace_back(token, bias);
  params.min_tokens = sampling.min_tokens();
  params.ignore_eos = sampling.ignore_eos();
  params.stop_ids.assign(sampling.stop_ids().begin(), sampling.stop_ids().end());
  return params;
}

proto::Finish ToProto(model::Finish finish) {
  switch (finish) {
    case model::Finish::kNone:
      return proto::FINISH_NONE;
    case model::Finish::kStop:
      return proto::FINISH_STOP;
    case model::Finish::kLength:
      return proto::FINISH_LENGTH;
  }
  return proto::FINISH_NONE;
}

proto::Identity MakeIdentity(const model::Model& model, const kv::PlanOptions& options) {
  proto::Identity identity;
  identity.set_wire_version(kWireVersion);
  identity.set_model_fingerprint(model.fingerprint());
  identity.set_plan_fingerprint(kv::PlanFingerprint(model.geometry(), options));
  identity.set_model_name(model.config().name);
  identity.set_kv_mode(kv::DescribeKv(options));
  return identity;
}

absl::Status CheckSameIdentity(const proto::Identity& own, const proto::Identity& peer) {
  if (own.wire_version() != peer.wire_version()) {
    return FailedPrecondition("wire version %d here, %d there: run one release on all nodes",
                              own.wire_version(), peer.wire_version());
  }
  if (own.model_fingerprint() != peer.model_fingerprint()) {
    return FailedPrecondition("the models differ: '%s' (%016x) here, '%s' (%016x) there",
                              own.model_name(), own.model_fingerprint(), peer.model_name(),
                              peer.model_fingerprint());
  }
  if (own.plan_fingerprint() != peer.plan_fingerprint()) {
    return FailedPrecondition("the KV plans differ: %s (%016x) here, %s (%016x) there",
                              own.kv_mode(), own.plan_fingerprint(), peer.kv_mode(),
                              peer.plan_fingerprint());
  }
  return absl::OkStatus();
}

absl::Status CheckRouterHello(const proto::Identity& own, const proto::Hello& hello) {
  if (hello.role() != proto::ROLE_ROUTER) {
    return FailedPrecondition("only routers connect to a worker's control port");
  }
  proto::Identity peer = hello.identity();
  if (peer.model_fingerprint() == 0) peer.set_model_fingerprint(own.model_fingerprint());
  return CheckSameIdentity(own, peer);
}

proto::Envelope EndedMessage(AttemptId id, const std::string& request_id,
                             const absl::Status& status, const char* stage) {
  proto::Envelope message;
  proto::Ended& ended = *message.mutable_ended();
  *ended.mutable_attempt() = ToProto(id, request_id);
  ended.set_status(static_cast<int>(status.code()));
  ended.set_stage(stage);
  ended.set_message(std::string(status.message()));
  return message;
}

}  // namespace anchorage::worker
