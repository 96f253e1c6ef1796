// What `anchorage plan` and `anchorage inspect` are made of.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/serialized.h"
#include "nlohmann/json.hpp"
#include "tests/kv/layer_fixture.h"
#include "tools/break_even.h"
#include "tools/inspect_cache.h"
#include "tools/npz_writer.h"

namespace anchorage::tools {
namespace {

using testing::HasSubstr;

// ---- Break-even ----

TEST(BreakEvenTest, SecondsAreThoseOfThePipeline) {
  // Layers of 2 s that send for 1 s: the last one is alone on the link.
  EXPECT_DOUBLE_EQ(SecondsUntilLanded(4, 2.0, 100, 100.0), 2 + 3 * 2 + 1);
  // Layers of 1 s that send for 3 s: the link is always busy after the first.
  EXPECT_DOUBLE_EQ(SecondsUntilLanded(4, 1.0, 300, 100.0), 1 + 3 * 3 + 3);
}

TEST(BreakEvenTest, WithoutOverlapItIsBytesSavedPerSecondOfCompression) {
  // One layer: c + b / v = f / v, so v = (f - b) / c.
  const LayerTimes times = {1, 1'000'000, 50'000, 0.0, 0.5};
  EXPECT_NEAR(BreakEvenBytesPerSecond(times), 950'000 / 0.5, 1);
}

TEST(BreakEvenTest, BothWaysTakeTheSameTimeThere) {
  const LayerTimes times = {30, 6'291'456, 314'570, 0.16, 0.02};
  const double speed = BreakEvenBytesPerSecond(times);
  const double dense = SecondsUntilLanded(30, 0.16, times.full_bytes, speed);
  const double compressed = SecondsUntilLanded(30, 0.18, times.bytes, speed);
  EXPECT_NEAR(dense, compressed, 1e-9 * dense);
  EXPECT_LT(SecondsUntilLanded(30, 0.18, times.bytes, speed / 2),
            SecondsUntilLanded(30, 0.16, times.full_bytes, speed / 2));
  EXPECT_GT(SecondsUntilLanded(30, 0.18, times.bytes, speed * 2),
            SecondsUntilLanded(30, 0.16, times.full_bytes, speed * 2));
}

// ---- Files ----

// A folder of its own, gone afterwards.
class FilesTest : public testing::Test {
 protected:
  FilesTest() : folder_(testing::TempDir() + "/cache_tools_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // What a Python program prints; empty when it fails.
  std::string Python(const std::string& interpreter, const std::string& program,
                     const std::string& argument) const {
    const std::string script = Path("script.py");
    const std::string output = Path("output.txt");
    std::ofstream(script) << program;
    const std::string command =
        interpreter + " '" + script + "' '" + argument + "' > '" + output + "' 2>&1";
    if (std::system(command.c_str()) != 0) return "";
    std::ifstream in(output);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};

using NpzWriterTest = FilesTest;

// Lists an archive with the standard library alone: name, header and bytes of each array.
constexpr char kListArchive[] = R"(
import ast, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
for name in archive.namelist():
    data = archive.read(name)
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length = int.from_bytes(data[8:10], "little")
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode())
    print(name, header["descr"], header["fortran_order"], header["shape"], data[10 + length:].hex())
)";

TEST_F(NpzWriterTest, WritesArchivesThatPythonReads) {
  auto npz = NpzWriter::Create(Path("a.npz"));
  ASSERT_TRUE(npz.ok()) << npz.status();
  const uint16_t shorts[] = {1, 2, 258, 4, 5, 6};
  const int64_t matrix[] = {2, 3};
  const int64_t none[] = {0};
  ASSERT_TRUE(npz->Add("shorts", "<u2", matrix, std::as_bytes(std::span(shorts))).ok());
  ASSERT_TRUE(npz->Add("none", "<f4", none, {}).ok());
  ASSERT_TRUE(npz->Finish().ok());
  EXPECT_EQ(Python("python3", kListArchive, Path("a.npz")),
            "shorts.npy <u2 False (2, 3) 010002000201040005000600\nnone.npy <f4 False (0,) \n");
}

TEST_F(NpzWriterTest, IsTheSameBytesOnEveryRun) {
  const float values[] = {1.5f};
  const int64_t shape[] = {1};
  std::string first;
  for (const char* name : {"a.npz", "b.npz"}) {
    auto npz = NpzWriter::Create(Path(name));
    ASSERT_TRUE(npz.ok());
    ASSERT_TRUE(npz->Add("x", "<f4", shape, std::as_bytes(std::span(values))).ok());
    ASSERT_TRUE(npz->Finish().ok());
    std::ifstream in(Path(name), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST_F(NpzWriterTest, SaysWhenItCannotWrite) {
  EXPECT_FALSE(NpzWriter::Create(Path("no/such/folder.npz")).ok());
}

// ---- Inspecting a saved cache ----

class InspectCacheTest : public FilesTest {
 protected:
  // One layer, saved and parsed again.
  void Save(kv::Layout layout) {
    const kv::MadeUpLayer made({300, 2, 4, 64});
    kv::CacheHeader header;
    header.geometry = {1, 2, 64};
    header.options.layout = layout;
    header.seq_len = 300;
    header.rope_frequencies = kv::RopeFrequencies(10'000, 64, {});
    const auto compressed = made.Compress(header.options);
    ASSERT_TRUE(compressed.ok());
    std::vector<std::byte> bytes = SerializeHeader(header);
    const auto head = kv::SerializeLayerHead(0, static_cast<int64_t>(compressed->region.size()),
                                             compressed->checksum);
    bytes.insert(bytes.end(), head.begin(), head.end());
    const auto region = compressed->region.span();
    bytes.insert(bytes.end(), region.begin(), region.end());
    file_ = AlignedBuffer(bytes.size());
    std::memcpy(file_.data(), bytes.data(), bytes.size());
    auto cache = kv::ParseCache(std::as_const(file_).span());
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
  }

  std::string Print(bool json, absl::Status& status) {
    testing::internal::CaptureStdout();
    status = PrintCache(cache_, json);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }

  AlignedBuffer file_;
  kv::SavedCache cache_;
};

TEST_F(InspectCacheTest, TellsSizesByTensorAndAGoodVerdict) {
  Save(kv::Layout::kCompact);
  absl::Status status;
  const auto json = nlohmann::json::parse(Print(true, status));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(json["layout"], "compact");
  EXPECT_EQ(json["tokens"], 300);
  EXPECT_EQ(json["bytes"], cache_.layers[0].plan.bytes);
  EXPECT_EQ(json["tensors"]["idx_k"], 2 * 34 * 6);  // 268 positions of six bits
  EXPECT_GT(json["tensors"]["fine_codes_v"], 0);
  EXPECT_TRUE(json["verdicts"][0]["ok"]);
  EXPECT_THAT(Print(false, status), HasSubstr("1 of 1 layers good"));
}

TEST_F(InspectCacheTest, NamesADamagedLayerAndFails) {
  Save(kv::Layout::kCompact);
  file_.data()[file_.size() - 70] ^= std::byte{1};
  absl::Status status;
  const std::string text = Print(false, status);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(text, HasSubstr("layer 0: the checksum is wrong"));
  EXPECT_THAT(text, HasSubstr("0 of 1 layers good"));
  EXPECT_EQ(WriteLayerNpz(cache_, 0, Path("x.npz")).code(), absl::StatusCode::kDataLoss);
}

TEST_F(InspectCacheTest, WritesReconstructionAndStoredTensorsOfEveryLayout) {
  for (const kv::Layout layout : {kv::Layout::kDense, kv::Layout::kCompact, kv::Layout::kPaper}) {
    Save(layout);
    ASSERT_TRUE(WriteLayerNpz(cache_, 0, Path("layer.npz")).ok());
    const std::string listing = Python("python3", kListArchive, Path("layer.npz"));
    EXPECT_THAT(listing, HasSubstr("reconstructed_k.npy <f4 False (2, 300, 64) "));
    EXPECT_THAT(listing, HasSubstr("reconstructed_v.npy <f4 False (2, 300, 64) "));
    for (const kv::TensorPlan& tensor : cache_.layers[0].plan.tensors) {
      EXPECT_THAT(listing, HasSubstr(std::string(tensor.name) + ".npy "));
    }
  }
}

TEST_F(InspectCacheTest, WritesOnlyTheRowsThatAnEvictingLayoutKept) {
  for (const kv::Layout layout : {kv::Layout::kSnapKv, kv::Layout::kRecent}) {
    Save(layout);
    ASSERT_TRUE(WriteLayerNpz(cache_, 0, Path("layer.npz")).ok());
    const std::string listing = Python("python3", kListArchive, Path("layer.npz"));
    EXPECT_THAT(listing, HasSubstr("reconstructed_k.npy <f4 False (2, 126, 64) "));
    EXPECT_THAT(listing, HasSubstr("retained_v.npy <f4 False (2, 126, 64) "));
    EXPECT_THAT(listing, HasSubstr("retained_pos.npy <u4 False (2, 126) "));
  }
}

TEST_F(InspectCacheTest, NumpyLoadsALayer) {
  Save(kv::Layout::kCompact);
  ASSERT_TRUE(WriteLayerNpz(cache_, 0, Path("layer.npz")).ok());
  const std::string program = R"(
import sys, numpy as np
layer = np.load(sys.argv[1])
assert np.isfinite(layer["reconstructed_k"]).all()
# The window's values are anchors: whole numbers and a power of two.
anchors = np.ldexp(layer["anchor_v"].astype("f4"), layer["anchor_exponent_v"][:, :, None])
assert (layer["reconstructed_v"][:, -32:] == anchors[:, -32:]).all()
groups = layer["idx_k"]
bits = groups.shape[2]
index = np.unpackbits(groups, axis=-1, bitorder="little").reshape(groups.shape[0], -1, bits) @ (1 << np.arange(bits))
assert index.max() < layer["anchor_k"].shape[1]
assert len(np.unique(index)) > 8
print(layer["codes_v"].shape[1])
)";
  // numpy stands in the tests' own environment.
  EXPECT_EQ(Python(".venv/bin/python", program, Path("layer.npz")), "16\n")
      << "scripts/setup.sh --tests brings numpy";
}

TEST_F(InspectCacheTest, RefusesALayerThatIsNotThere) {
  Save(kv::Layout::kDense);
  for (const int64_t layer : {-1, 1}) {
    EXPECT_EQ(WriteLayerNpz(cache_, layer, Path("x.npz")).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace anchorage::tools
