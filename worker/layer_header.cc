#include "worker/layer_header.h"

#include "common/status.h"
#include "common/wire_version.h"
#include "proto/transfer.pb.h"

namespace anchorage::worker {

std::string Serialize(const LayerHeader& header) {
  proto::LayerHeader message;
  message.set_wire_version(kWireVersion);
  message.set_sender_boot(header.sender_boot);
  message.set_request(header.attempt.request);
  message.set_generation(header.attempt.generation);
  message.set_nonce(header.nonce);
  message.set_model_fingerprint(header.model_fingerprint);
  message.set_plan_fingerprint(header.plan_fingerprint);
  message.set_layer(static_cast<uint32_t>(header.layer));
  message.set_num_layers(static_cast<uint32_t>(header.num_layers));
  message.set_length(header.length);
  message.set_checksum(header.checksum);
  message.set_code_packing(static_cast<uint32_t>(header.packing));
  message.set_closing(header.closing);
  message.set_first_token(header.first_token);
  return message.SerializeAsString();
}

absl::StatusOr<LayerHeader> ParseLayerHeader(std::span<const std::byte> bytes) {
  proto::LayerHeader message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Invalid("%d bytes that are no layer header", bytes.size());
  }
  if (message.wire_version() != kWireVersion) {
    return FailedPrecondition("layer header of wire version %d, this node speaks %d",
                              message.wire_version(), kWireVersion);
  }
  if (message.code_packing() > static_cast<uint32_t>(kernels::CodePacking::kPlanar)) {
    return Invalid("unknown code packing %d", message.code_packing());
  }
  return LayerHeader{.sender_boot = message.sender_boot(),
                     .attempt = {message.request(), message.generation()},
                     .nonce = message.nonce(),
                     .model_fingerprint = message.model_fingerprint(),
                     .plan_fingerprint = message.plan_fingerprint(),
                     .layer = message.layer(),
                     .num_layers = message.num_layers(),
                     .length = message.length(),
                     .checksum = message.checksum(),
                     .packing = static_cast<kernels::CodePacking>(message.code_packing()),
                     .closing = message.closing(),
                     .first_token = message.first_token()};
}

}  // namespace anchorage::worker
