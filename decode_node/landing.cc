#include "decode_node/landing.h"

#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"

namespace anchorage::decode {

using transport::Landing;
using worker::LayerHeader;

absl::Status LandingReceiver::CheckHeader(const LayerHeader& header, size_t length) {
  if (header.length != length) {
    transfers_.IntegrityFailure("bounds");
    return Invalid("the header says %d bytes, the transport %d", header.length, length);
  }
  if (header.model_fingerprint != expected_.model_fingerprint ||
      header.plan_fingerprint != expected_.plan_fingerprint) {
    transfers_.IntegrityFailure("version");
    return FailedPrecondition("the sender's model or KV plan is not this node's");
  }
  if (!header.closing && header.packing != kCodePacking) {
    transfers_.IntegrityFailure("version");
    return FailedPrecondition("the codes are not in the packing that was granted");
  }
  return absl::OkStatus();
}

absl::StatusOr<Landing> LandingReceiver::OnAnnounce(std::span<const std::byte> bytes,
                                                    size_t length) {
  absl::StatusOr<LayerHeader> header = worker::ParseLayerHeader(bytes);
  if (!header.ok()) {
    transfers_.IntegrityFailure("version");
    return header.status();
  }
  RETURN_IF_ERROR(CheckHeader(*header, length));
  if (header->closing) return Close(*header);
  const absl::StatusOr<RunningLanding> running = engine_.Announce({.attempt = header->attempt,
                                                                   .nonce = header->nonce,
                                                                   .layer = header->layer,
                                                                   .num_layers = header->num_layers,
                                                                   .length = length,
                                                                   .checksum = header->checksum});
  if (!running.ok()) {
    const bool forged = running.status().code() == absl::StatusCode::kPermissionDenied;
    transfers_.IntegrityFailure(forged ? "auth" : "bounds");
    return running.status();
  }
  MutexLock lock(mutex_);
  begin_ns_[running->token] = transfers_.Begin();
  return Landing{running->region, running->token};
}

absl::StatusOr<Landing> LandingReceiver::Close(const LayerHeader& header) {
  RETURN_IF_ERROR(engine_.Close(header.attempt, header.nonce, header.first_token));
  return Landing{{}, kClosingBit | next_closing_++};
}

void LandingReceiver::OnQuiet(uint64_t token, absl::Status landed, Reply reply) {
  if ((token & kClosingBit) != 0) {
    if (reply) reply(absl::OkStatus());
    return;
  }
  int64_t begin_ns = 0;
  {
    MutexLock lock(mutex_);
    begin_ns = begin_ns_.extract(token).mapped();
  }
  std::optional<LandedLayer> layer = engine_.Quiet(token, landed);
  if (!landed.ok()) return transfers_.Fail(begin_ns, worker::FailureReason(landed));
  if (!layer.has_value()) {  // the attempt ended while its bytes were on their way
    transfers_.Fail(begin_ns, "refused");
    return reply(absl::AbortedError("the attempt has ended here"));
  }
  const kv::LayerPlan& plan = layer->memory->plan().layers[static_cast<size_t>(layer->layer)];
  transfers_.Succeed(begin_ns, plan.region_bytes, plan.full_bytes);
  verifier_.Submit([this, token, layer = *std::move(layer), reply = std::move(reply)] {
    Verify(token, layer, reply);
  });
}

void LandingReceiver::Verify(uint64_t token, const LandedLayer& layer, const Reply& reply) {
  const int64_t begin_ns = Clock::Real().NowNs();
  const absl::Status verdict = engine_.Verify(token, layer);
  metrics_.OnVerified(Clock::Real().NowNs() - begin_ns);
  if (!verdict.ok()) {
    transfers_.IntegrityFailure("checksum");
    observe::LogWarning("", "%s", std::string(verdict.message()));
  }
  reply(verdict);
}

}  // namespace anchorage::decode
