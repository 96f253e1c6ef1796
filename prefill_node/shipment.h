// Sends one attempt's cache to its decode node, each layer the moment it is final, and closes the
// attempt when every layer has been verified there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "kernels/residual.h"
#include "kv/layer_sink.h"
#include "transport/data/data_plane.h"
#include "worker/transfer_metrics.h"

namespace anchorage::prefill {

// Where an attempt's cache goes: from the decode node's grant.
struct Destination {
  std::string address;  // of the data plane
  uint64_t nonce = 0;
  kernels::CodePacking packing = kernels::CodePacking::kLinear;
};

// What every header of this process says of the sender.
struct Sender {
  BootId boot = 0;
  uint64_t model_fingerprint = 0;
  uint64_t plan_fingerprint = 0;
};

// Thread-safe. Layers stay alive until the transport is done with them, also after a failure; the
// object itself lives as long as a transfer runs.
class Shipment : public kv::LayerSink, public std::enable_shared_from_this<Shipment> {
 public:
  // `on_end` runs exactly once, on the data plane's thread or on the caller's of Fail: OK when the
  // decode node has taken the sequence; otherwise why it did not.
  using OnEnd = std::function<void(const absl::Status&)>;

  Shipment(transport::DataPlane& plane, worker::TransferMetrics& metrics, const Sender& sender,
           AttemptId attempt, Destination destination, int64_t num_layers, OnEnd on_end);

  // Starts the layer's transfer and returns. Errors once the shipment has failed.
  absl::Status OnLayer(int layer, kv::CompressedLayer&& cache) override;

  // No layer is to come and the first token is known: the attempt is closed at the decode node as
  // soon as the last layer is verified.
  void Close(int32_t first_token);

  // Ends the shipment: no layer more is handed over. What is on its way goes on, and its memory is
  // kept until the transport is done with it: a layer that the decode node wants no more it
  // refuses, and both ends count the same bytes as sent.
  void Fail(const absl::Status& status);

  // Time from Close until the decode node took the sequence: the transfer that nothing hid.
  int64_t exposed_ns() const;

 private:
  struct Transfer {
    kv::CompressedLayer cache;
    int64_t begin_ns = 0;
  };

  std::string LayerHeader(const kv::CompressedLayer& cache) const;
  std::string ClosingHeader(int32_t first_token) const;
  void OnLayerDone(int layer, const absl::Status& status);
  void CloseIfReady();
  void End(const absl::Status& status);

  transport::DataPlane& plane_;
  worker::TransferMetrics& metrics_;
  const Sender sender_;
  const AttemptId attempt_;
  const Destination destination_;
  const int64_t num_layers_;

  mutable Mutex mutex_;
  OnEnd on_end_ GUARDED_BY(mutex_);  // empty once it has run
  std::unordered_map<int, Transfer> running_ GUARDED_BY(mutex_);
  int64_t verified_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;     // Close was called
  bool close_sent_ GUARDED_BY(mutex_) = false;  // and is on its way
  int32_t first_token_ GUARDED_BY(mutex_) = 0;
  int64_t close_ns_ GUARDED_BY(mutex_) = 0;
  int64_t end_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace anchorage::prefill
