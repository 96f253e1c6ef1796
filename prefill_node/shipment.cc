#include "prefill_node/shipment.h"

#include <span>
#include <utility>

#include "worker/layer_header.h"

namespace anchorage::prefill {

Shipment::Shipment(transport::DataPlane& plane, worker::TransferMetrics& metrics,
                   const Sender& sender, AttemptId attempt, Destination destination,
                   int64_t num_layers, OnEnd on_end)
    : plane_(plane),
      metrics_(metrics),
      sender_(sender),
      attempt_(attempt),
      destination_(std::move(destination)),
      num_layers_(num_layers),
      on_end_(std::move(on_end)) {}

std::string Shipment::LayerHeader(const kv::CompressedLayer& cache) const {
  return worker::Serialize({.sender_boot = sender_.boot,
                            .attempt = attempt_,
                            .nonce = destination_.nonce,
                            .model_fingerprint = sender_.model_fingerprint,
                            .plan_fingerprint = sender_.plan_fingerprint,
                            .layer = cache.layer,
                            .num_layers = num_layers_,
                            .length = cache.region.size(),
                            .checksum = cache.checksum,
                            .packing = destination_.packing});
}

std::string Shipment::ClosingHeader(int32_t first_token) const {
  return worker::Serialize({.sender_boot = sender_.boot,
                            .attempt = attempt_,
                            .nonce = destination_.nonce,
                            .model_fingerprint = sender_.model_fingerprint,
                            .plan_fingerprint = sender_.plan_fingerprint,
                            .num_layers = num_layers_,
                            .closing = true,
                            .first_token = first_token});
}

// The plane is called without the lock: one that has been shut down calls back from inside Send.
absl::Status Shipment::OnLayer(int layer, kv::CompressedLayer&& cache) {
  std::string header = LayerHeader(cache);
  const std::span<const std::byte> payload = cache.region.span();
  {
    MutexLock lock(mutex_);
    if (!on_end_) return absl::AbortedError("the transfer of an earlier layer has failed");
    running_[layer] = {.cache = std::move(cache), .begin_ns = metrics_.Begin()};
  }
  plane_.Send(destination_.address, std::move(header), payload,
              [self = shared_from_this(), layer](absl::Status status) {
                self->OnLayerDone(layer, status);
              });
  return absl::OkStatus();
}

void Shipment::OnLayerDone(int layer, const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    const Transfer done = std::move(running_.extract(layer).mapped());
    if (status.ok()) {
      metrics_.Succeed(done.begin_ns, static_cast<int64_t>(done.cache.region.size()),
                       done.cache.plan.full_bytes);
      ++verified_;
    } else {
      metrics_.Fail(done.begin_ns, worker::FailureReason(status));
    }
  }
  if (!status.ok()) return Fail(status);
  CloseIfReady();
}

void Shipment::Close(int32_t first_token) {
  {
    MutexLock lock(mutex_);
    closing_ = true;
    first_token_ = first_token;
    close_ns_ = Clock::Real().NowNs();
  }
  CloseIfReady();
}

void Shipment::CloseIfReady() {
  int32_t first_token = 0;
  {
    MutexLock lock(mutex_);
    if (!on_end_ || !closing_ || close_sent_ || verified_ < num_layers_) return;
    close_sent_ = true;
    first_token = first_token_;
  }
  plane_.Send(destination_.address, ClosingHeader(first_token), {},
              [self = shared_from_this()](absl::Status status) { self->End(status); });
}

void Shipment::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (close_sent_) return;  // the decode node's answer decides
  }
  End(status);
}

void Shipment::End(const absl::Status& status) {
  OnEnd on_end;
  {
    MutexLock lock(mutex_);
    if (!on_end_) return;
    on_end = std::exchange(on_end_, nullptr);
    end_ns_ = Clock::Real().NowNs();
    if (closing_) metrics_.Exposed(end_ns_ - close_ns_);
  }
  on_end(status);
}

int64_t Shipment::exposed_ns() const {
  MutexLock lock(mutex_);
  return closing_ && end_ns_ > 0 ? end_ns_ - close_ns_ : 0;
}

}  // namespace anchorage::prefill
