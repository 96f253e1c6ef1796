#include "transport/data/ucx/message.h"

#include <gtest/gtest.h>

#include "transport/data/data_plane.h"
#include "transport/data/ucx/socket_address.h"
#include "transport/data/ucx/ucs_status.h"
#include "transport/data/ucx/worker.h"

namespace anchorage::transport {
namespace {

TransferPrefix Prefix(const std::string& header) {
  TransferPrefix prefix;
  prefix.header_bytes = static_cast<uint16_t>(header.size());
  prefix.id = 7;
  prefix.length = 100;
  return prefix;
}

TEST(UcxMessageTest, TransferComesBack) {
  const std::string bytes = EncodeTransfer(Prefix("layer"), "layer");
  const auto back = DecodeTransfer(bytes.data(), bytes.size());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->prefix.id, 7u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(back->header.data()), back->header.size()),
            "layer");
}

TEST(UcxMessageTest, RefusesEveryOtherSizeAndForeignBytes) {
  const std::string bytes = EncodeTransfer(Prefix("layer"), "layer");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeTransfer(bytes.data(), size).has_value()) << size;
  }
  const std::string longer = bytes + "x";
  EXPECT_FALSE(DecodeTransfer(longer.data(), longer.size()).has_value());
  for (const size_t at : {size_t{0}, size_t{4}}) {  // magic, version
    std::string other = bytes;
    other[at] ^= 1;
    EXPECT_FALSE(DecodeTransfer(other.data(), other.size()).has_value());
  }
}

TEST(UcxMessageTest, RefusesWhatBreaksALimit) {
  TransferPrefix prefix = Prefix("");
  prefix.length = kMaxTransferBytes + 1;
  std::string bytes = EncodeTransfer(prefix, "");
  EXPECT_FALSE(DecodeTransfer(bytes.data(), bytes.size()).has_value());
  const std::string header(kMaxHeaderBytes + 1, 'h');
  bytes = EncodeTransfer(Prefix(header), header);
  EXPECT_FALSE(DecodeTransfer(bytes.data(), bytes.size()).has_value());
}

TEST(UcxMessageTest, ReplyMustHaveItsSizeAndMagic) {
  ReplyHeader header;
  EXPECT_TRUE(DecodeReply(&header, sizeof(header)).has_value());
  EXPECT_FALSE(DecodeReply(&header, sizeof(header) - 1).has_value());
  header.magic = 0;
  EXPECT_FALSE(DecodeReply(&header, sizeof(header)).has_value());
}

TEST(StatusFromUcsTest, SaysWhatTheCallerCanDo) {
  EXPECT_TRUE(StatusFromUcs(UCS_OK, "x").ok());
  EXPECT_EQ(StatusFromUcs(UCS_ERR_CONNECTION_RESET, "x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusFromUcs(UCS_ERR_REJECTED, "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(StatusFromUcs(UCS_ERR_CANCELED, "x").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(StatusFromUcs(UCS_ERR_LAST, "x").code(), absl::StatusCode::kInternal);
}

TEST(UcxWorkerTest, NamesTheInterfaceOfTheHostAndRefusesForeignOnes) {
  const auto worker = UcxWorker::Create("127.0.0.1");
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_NE((*worker)->description().find("NET_DEVICES=lo"), std::string::npos);
  EXPECT_EQ(UcxWorker::Create("203.0.113.77").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SocketAddressTest, ResolvesNumbersAndNames) {
  EXPECT_EQ(ResolveSocketAddress("127.0.0.1:80")->ToString(), "127.0.0.1:80");
  EXPECT_EQ(ResolveSocketAddress("[::1]:80")->ToString(), "[::1]:80");
  EXPECT_TRUE(ResolveSocketAddress("0.0.0.0:1")->is_wildcard());
  EXPECT_TRUE(ResolveSocketAddress("localhost:80").ok());
  EXPECT_EQ(ResolveSocketAddress("no-such-host.invalid:80").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace anchorage::transport
