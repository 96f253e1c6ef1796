#include "worker/layer_header.h"

#include "gtest/gtest.h"
#include "proto/transfer.pb.h"
#include "transport/data/data_plane.h"

namespace anchorage::worker {
namespace {

LayerHeader Largest() {
  return {.sender_boot = ~uint64_t{0},
          .attempt = {~uint64_t{0}, ~uint32_t{0}},
          .nonce = ~uint64_t{0},
          .model_fingerprint = ~uint64_t{0},
          .plan_fingerprint = ~uint64_t{0},
          .layer = 1023,
          .num_layers = 1024,
          .length = uint64_t{1} << 36,
          .checksum = ~uint64_t{0},
          .packing = kernels::CodePacking::kPlanar,
          .closing = true,
          .first_token = 128'255};
}

TEST(LayerHeaderTest, ComesBackAsItWasAndFitsTheDataPlane) {
  const LayerHeader header = Largest();
  const std::string bytes = Serialize(header);
  EXPECT_LE(bytes.size(), transport::kMaxHeaderBytes);
  const auto parsed = ParseLayerHeader(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(Serialize(*parsed), bytes);
  EXPECT_EQ(parsed->attempt, header.attempt);
  EXPECT_EQ(parsed->length, header.length);
  EXPECT_EQ(parsed->first_token, header.first_token);
}

TEST(LayerHeaderTest, RefusesBytesThatAreNoHeader) {
  const std::string junk = "\xff\xff\xff\xff";
  EXPECT_EQ(ParseLayerHeader(std::as_bytes(std::span(junk))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LayerHeaderTest, RefusesAnotherWireVersionAndAnUnknownPacking) {
  proto::LayerHeader message;
  message.ParseFromString(Serialize(Largest()));
  message.set_wire_version(99);
  std::string bytes = message.SerializeAsString();
  EXPECT_EQ(ParseLayerHeader(std::as_bytes(std::span(bytes))).status().code(),
            absl::StatusCode::kFailedPrecondition);
  message.ParseFromString(Serialize(Largest()));
  message.set_code_packing(2);
  bytes = message.SerializeAsString();
  EXPECT_EQ(ParseLayerHeader(std::as_bytes(std::span(bytes))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace anchorage::worker
