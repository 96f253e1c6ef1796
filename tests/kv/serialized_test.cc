#include "kv/serialized.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/cache_file.h"
#include "kv/layer_cache.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

using testing::HasSubstr;

// A saved cache of two layers in memory, aligned as a mapped file is.
class SerializedTest : public testing::TestWithParam<Layout> {
 protected:
  SerializedTest() : layer_({200, 2, 2, 64}) {
    header_.geometry = {2, 2, 64};
    header_.options.layout = GetParam();
    header_.seq_len = 200;
    header_.model_fingerprint = 0x1234;
    header_.rope_frequencies = RopeFrequencies(10'000, 64, {});
  }

  AlignedBuffer File() {
    std::vector<std::byte> bytes = SerializeHeader(header_);
    header_bytes_ = bytes.size();
    for (int layer = 0; layer < 2; ++layer) {
      const CompressedLayer compressed = Compressed(layer);
      const auto head = SerializeLayerHead(layer, static_cast<int64_t>(compressed.region.size()),
                                           compressed.checksum);
      bytes.insert(bytes.end(), head.begin(), head.end());
      const auto region = compressed.region.span();
      bytes.insert(bytes.end(), region.begin(), region.end());
    }
    return Copy(bytes);
  }

  CompressedLayer Compressed(int index) {
    kernels::Stream stream(1);
    Workspace workspace;
    auto result = MakeCompressor(header_.options)
                      ->Compress(layer_.layer(index), layer_.observed(),
                                 PlanLayer(header_.geometry, header_.options, 200, index),
                                 header_.packing, workspace, stream);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static AlignedBuffer Copy(std::span<const std::byte> bytes) {
    AlignedBuffer copy(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

  // The file with one header field overwritten and the header's checksum made right again.
  template <typename T>
  absl::Status WithField(size_t offset, T value) {
    AlignedBuffer file = File();
    std::memcpy(file.data() + offset, &value, sizeof(value));
    const auto covered = file.span().subspan(32, header_bytes_ - 32);
    const uint64_t checksum = Checksum(covered);
    std::memcpy(file.data() + 24, &checksum, sizeof(checksum));
    return ParseCache(file.span()).status();
  }

  MadeUpLayer layer_;
  CacheHeader header_;
  size_t header_bytes_ = 0;
};

TEST_P(SerializedTest, RoundTrips) {
  const AlignedBuffer file = File();
  const auto cache = ParseCache(file.span());
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(cache->header.options, header_.options);
  EXPECT_EQ(cache->header.seq_len, 200);
  EXPECT_EQ(cache->header.model_fingerprint, 0x1234u);
  EXPECT_EQ(cache->header.rope_frequencies, header_.rope_frequencies);
  ASSERT_EQ(cache->layers.size(), 2u);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(VerifySavedLayer(cache->layers[layer]), absl::OkStatus());
    const CompressedLayer expected = Compressed(layer);
    ASSERT_EQ(cache->layers[layer].region.size(), expected.region.size());
    EXPECT_EQ(std::memcmp(cache->layers[layer].region.data(), expected.region.data(),
                          expected.region.size()),
              0);
  }
}

TEST_P(SerializedTest, TruncatedAnywhereIsAnError) {
  const AlignedBuffer file = File();
  const auto bytes = file.span();
  for (size_t size = 0; size < bytes.size(); size += size < 2048 ? 1 : 509) {
    EXPECT_FALSE(ParseCache(bytes.first(size)).ok()) << size;
  }
  EXPECT_FALSE(ParseCache(bytes.first(bytes.size() - 1)).ok());
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(ParseCache(Copy(longer).span()).ok());
}

TEST_P(SerializedTest, AnyFlippedHeaderBitIsAnError) {
  File();
  // Every 37th bit: all positions within a byte, every field.
  for (size_t bit = 0; bit < header_bytes_ * 8; bit += 37) {
    AlignedBuffer file = File();
    file.data()[bit / 8] ^= std::byte{static_cast<uint8_t>(1 << (bit % 8))};
    ASSERT_FALSE(ParseCache(file.span()).ok()) << "bit " << bit;
  }
}

TEST_P(SerializedTest, AnyFlippedRegionBitFailsTheChecksum) {
  AlignedBuffer file = File();
  for (size_t at = header_bytes_ + kLayerHeadBytes; at < header_bytes_ + 8192; at += 977) {
    file.data()[at] ^= std::byte{0x10};
    const auto cache = ParseCache(file.span());
    ASSERT_TRUE(cache.ok());
    EXPECT_EQ(VerifySavedLayer(cache->layers[0]).code(), absl::StatusCode::kDataLoss) << at;
    file.data()[at] ^= std::byte{0x10};
  }
}

TEST_P(SerializedTest, HugeCountsAreRefusedWithoutBeingBelieved) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{1} << 26, most}) {
    EXPECT_FALSE(WithField(40, bad).ok()) << bad;
    EXPECT_FALSE(WithField(48, bad).ok()) << bad;
    EXPECT_FALSE(WithField(56, bad).ok()) << bad;
    EXPECT_FALSE(WithField(64, bad).ok()) << bad;
    EXPECT_FALSE(WithField(160, bad).ok()) << bad;
  }
  EXPECT_FALSE(WithField(16, ~uint64_t{0}).ok());
  EXPECT_FALSE(WithField(16, uint64_t{0}).ok());
}

TEST_P(SerializedTest, NamesWhatIsWrong) {
  EXPECT_THAT(WithField(0, 'B').ToString(), HasSubstr("ANCHORKV"));
  EXPECT_THAT(WithField(8, uint32_t{2}).ToString(), HasSubstr("format 2"));
  EXPECT_THAT(WithField(12, uint32_t{9}).ToString(), HasSubstr("layout version 9"));
  EXPECT_THAT(WithField(32, uint32_t{5}).ToString(), HasSubstr("unknown layout 5"));
  EXPECT_THAT(WithField(36, uint32_t{2}).ToString(), HasSubstr("unknown code packing 2"));
  EXPECT_THAT(WithField(144, uint64_t{1}).ToString(), HasSubstr("plan fingerprint"));
  EXPECT_THAT(WithField(176, std::nan("")).ToString(), HasSubstr("rope pair 0"));
  EXPECT_THAT(WithField(header_bytes_ - 1, char{1}).ToString(), HasSubstr("padding"));
  EXPECT_THAT(WithField(header_bytes_, uint64_t{1}).ToString(),
              HasSubstr("layer 1 stands where layer 0 should"));
  EXPECT_THAT(WithField(header_bytes_ + 8, uint64_t{64}).ToString(), HasSubstr("layer 0: 64"));
  EXPECT_THAT(WithField(header_bytes_ + 63, char{1}).ToString(), HasSubstr("padding of its head"));
}

// Two rates for two layers: 6 numbers behind the 32 frequencies.
TEST_P(SerializedTest, HoldsAProfileAndRefusesABadOne) {
  header_.options.profile = {{0, 2000}, {900, 10, 300, 5}, 2, 64};
  const AlignedBuffer file = File();
  const auto cache = ParseCache(file.span());
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(cache->header.options, header_.options);
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(VerifySavedLayer(cache->layers[layer]), absl::OkStatus());
  }
  for (const uint64_t rates :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1025}, uint64_t{1} << 63}) {
    EXPECT_FALSE(WithField(168, rates).ok()) << rates;
  }
  const size_t profile = 176 + 32 * 8;
  EXPECT_THAT(WithField(profile, int64_t{7}).ToString(), HasSubstr("first rate"));
  EXPECT_THAT(WithField(profile + 16, int64_t{-1}).ToString(), HasSubstr("layer 0, rate 0"));
  EXPECT_THAT(WithField(profile + 16, int64_t{901}).ToString(), HasSubstr("plan fingerprint"));
}

TEST_P(SerializedTest, RefusesUnalignedBytes) {
  const AlignedBuffer file = File();
  AlignedBuffer shifted(file.size() + 8);
  std::memcpy(shifted.data() + 8, file.data(), file.size());
  EXPECT_EQ(ParseCache(shifted.span().subspan(8)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// ---- CacheFileSink ----

class CacheFileSinkTest : public SerializedTest {
 protected:
  CacheFileSinkTest() {
    directory_ = testing::TempDir() + "/cache_file_" + std::to_string(::getpid()) + "_" +
                 LayoutName(GetParam());
    std::filesystem::remove_all(directory_);
  }
  ~CacheFileSinkTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_P(CacheFileSinkTest, WritesWhatTheReaderReads) {
  auto sink = CacheFileSink::Create(directory_ + "/deep", header_);
  ASSERT_TRUE(sink.ok()) << sink.status();
  ASSERT_TRUE((*sink)->OnLayer(0, Compressed(0)).ok());
  EXPECT_FALSE((*sink)->complete());
  EXPECT_FALSE(std::filesystem::exists((*sink)->path()));
  ASSERT_TRUE((*sink)->OnLayer(1, Compressed(1)).ok());
  EXPECT_TRUE((*sink)->complete());

  std::ifstream in((*sink)->path(), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const AlignedBuffer expected = File();
  ASSERT_EQ(text.size(), expected.size());
  EXPECT_EQ(std::memcmp(text.data(), expected.data(), text.size()), 0);
}

TEST_P(CacheFileSinkTest, AnUnfinishedFileDisappears) {
  {
    auto sink = CacheFileSink::Create(directory_, header_);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE((*sink)->OnLayer(0, Compressed(0)).ok());
    EXPECT_FALSE(std::filesystem::is_empty(directory_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_P(CacheFileSinkTest, RefusesLayersOutOfOrderOrOutOfShape) {
  auto sink = CacheFileSink::Create(directory_, header_);
  ASSERT_TRUE(sink.ok());
  EXPECT_EQ((*sink)->OnLayer(1, Compressed(1)).code(), absl::StatusCode::kInvalidArgument);
  CompressedLayer short_layer = Compressed(0);
  short_layer.region = AlignedBuffer(64);
  EXPECT_EQ((*sink)->OnLayer(0, std::move(short_layer)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE((*sink)->OnLayer(0, Compressed(0)).ok());
  EXPECT_EQ((*sink)->OnLayer(0, Compressed(0)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(CacheFileSinkTest, RefusesAHeaderThatCouldNotBeRead) {
  header_.rope_frequencies.pop_back();
  EXPECT_EQ(CacheFileSink::Create(directory_, header_).status().code(),
            absl::StatusCode::kInvalidArgument);
  header_.rope_frequencies.push_back(std::nan(""));
  EXPECT_EQ(CacheFileSink::Create(directory_, header_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(CacheFileSinkTest, SaysWhenItCannotWrite) {
  std::ofstream(directory_) << "in the way";
  EXPECT_FALSE(CacheFileSink::Create(directory_, header_).ok());
}

const auto kLayouts = testing::Values(Layout::kDense, Layout::kCompact, Layout::kPaper,
                                      Layout::kSnapKv, Layout::kRecent);
const auto kName = [](const testing::TestParamInfo<Layout>& info) {
  return std::string(LayoutName(info.param));
};
INSTANTIATE_TEST_SUITE_P(Layouts, SerializedTest, kLayouts, kName);
INSTANTIATE_TEST_SUITE_P(Layouts, CacheFileSinkTest, kLayouts, kName);

TEST(RopeFrequenciesTest, FallFromOneAndAreDivided) {
  const std::vector<double> plain = RopeFrequencies(10'000, 8, {});
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_DOUBLE_EQ(plain[0], 1.0);
  EXPECT_DOUBLE_EQ(plain[1], 0.1);
  EXPECT_DOUBLE_EQ(plain[2], 0.01);
  const float divisors[] = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(RopeFrequencies(10'000, 8, divisors)[2], 0.0025);
}

}  // namespace
}  // namespace anchorage::kv
