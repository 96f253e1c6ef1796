// Every way in which a GGUF file may lie. Each is answered with InvalidArgument and a sentence that
// says where; under a sanitizer, each also shows that nothing outside the file is read.

#include <sys/resource.h>

#include <functional>
#include <limits>
#include <string>

#include "files/gguf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/files/gguf_builder.h"

namespace anchorage::files {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHugeCounts[] = {uint64_t{1} << 32,       (uint64_t{1} << 32) - 1,
                                    uint64_t{1} << 61,       uint64_t{1} << 63,
                                    (uint64_t{1} << 63) - 1, std::numeric_limits<uint64_t>::max()};

absl::Status ParseStatus(std::string_view file) {
  const AlignedFile memory(file);
  return GgufFile::Parse(memory.bytes()).status();
}

void ExpectRefused(std::string_view file, std::string_view message) {
  const absl::Status status = ParseStatus(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(message)));
}

void ExpectRefused(const GgufBuilder& builder, std::string_view message) {
  ExpectRefused(builder.Build(), message);
}

std::string F32Bytes(int64_t count) { return std::string(static_cast<size_t>(count) * 4, '\0'); }

GgufBuilder WithTensor(std::vector<int64_t> dims, uint32_t type = 0, uint64_t offset = 0) {
  GgufBuilder builder;
  builder.AddTensor("present", TensorType::kF32, {8}, F32Bytes(8));
  builder.AddTensorInfo("bad", type, std::move(dims), offset);
  return builder;
}

TEST(GgufMalformedTest, Empty) { ExpectRefused("", "offset 0"); }

TEST(GgufMalformedTest, ThreeBytes) { ExpectRefused("GGU", "only 3 are left"); }

TEST(GgufMalformedTest, WrongMagic) {
  GgufBuilder builder;
  builder.magic = "GGML";
  ExpectRefused(builder, "magic");
}

TEST(GgufMalformedTest, WrongVersion) {
  for (const uint32_t version : {0u, 1u, 2u, 4u, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.version = version;
    ExpectRefused(builder, "offset 4: GGUF version");
  }
}

TEST(GgufMalformedTest, BigEndian) {
  GgufBuilder builder;
  builder.version = 0x03000000;
  ExpectRefused(builder, "big-endian");
}

TEST(GgufMalformedTest, TruncatedAtEveryOffset) {
  const std::string strings[] = {"a", "bc"};
  const int32_t ints[] = {1, 2, 3};
  GgufBuilder builder;
  builder.AddString("s", "text").AddStrings("l", strings).AddBool("b", true);
  builder.AddArray<int32_t>("i", GgufValueType::kInt32, ints);
  builder.AddTensor("x", TensorType::kF32, {4}, F32Bytes(4));
  builder.AddTensor("y", TensorType::kQ8_0, {32, 2}, std::string(68, '\1'));
  const std::string whole = builder.Build();
  ASSERT_TRUE(ParseStatus(whole).ok()) << ParseStatus(whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ParseStatus(std::string_view(whole).substr(0, size)).code(),
              absl::StatusCode::kInvalidArgument)
        << "truncated to " << size;
  }
}

TEST(GgufMalformedTest, EveryByteFlippedNeverCrashes) {
  GgufBuilder builder;
  const std::string strings[] = {"a", "bc"};
  builder.AddU32("general.alignment", 32).AddStrings("l", strings);
  builder.AddTensor("x", TensorType::kF32, {4}, F32Bytes(4));
  const std::string whole = builder.Build();
  int accepted = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char mask : {'\x01', '\x80', '\xFF'}) {
      std::string mutant = whole;
      mutant[i] ^= mask;
      accepted += ParseStatus(mutant).ok();
    }
  }
  EXPECT_GT(accepted, 0);  // flips in names, padding and data are harmless
}

TEST(GgufMalformedTest, HugeEntryCount) {
  for (const uint64_t count : kHugeCounts) {
    GgufBuilder builder;
    builder.AddU32("a", 1);
    builder.num_entries = count;
    ExpectRefused(builder, "metadata entries cannot fit");
  }
}

TEST(GgufMalformedTest, HugeTensorCount) {
  for (const uint64_t count : kHugeCounts) {
    GgufBuilder builder = WithTensor({1});
    builder.num_tensors = count;
    ExpectRefused(builder, "tensors cannot fit");
  }
}

TEST(GgufMalformedTest, OneEntryTooMany) {
  GgufBuilder builder;
  builder.AddString("a", std::string(100, 'x'));
  builder.num_entries = 2;
  ExpectRefused(builder, "a metadata key needs 8 bytes");
}

TEST(GgufMalformedTest, StringLongerThanTheFile) {
  for (const uint64_t size : {uint64_t{6}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    GgufBuilder value;
    value.AddRaw("key",
                 ByteWriter().PutType(GgufValueType::kString).Put(size).PutRaw("12345").bytes());
    ExpectRefused(value, "offset ");
    GgufBuilder key;
    key.AddRaw("", "").AddRaw("", "");
    std::string file = key.Build();
    std::memcpy(file.data() + 24, &size, sizeof(size));
    ExpectRefused(file + std::string(12, '\0'), "offset ");
  }
}

TEST(GgufMalformedTest, KeyEmptyOrUnprintableOrTooLong) {
  for (const std::string& key :
       {std::string(), std::string("a\0b", 3), std::string("a\nb"), std::string(70000, 'k')}) {
    GgufBuilder builder;
    builder.AddU32(key, 1);
    ExpectRefused(builder, "is empty, too long or has control characters");
  }
}

TEST(GgufMalformedTest, ArrayLongerThanTheFile) {
  for (const GgufValueType type : {GgufValueType::kUint8, GgufValueType::kFloat32,
                                   GgufValueType::kInt64, GgufValueType::kString}) {
    for (const uint64_t count : kHugeCounts) {
      GgufBuilder builder;
      builder.AddRaw("list", ByteWriter()
                                 .PutType(GgufValueType::kArray)
                                 .PutType(type)
                                 .Put(count)
                                 .PutRaw(std::string(64, '\0'))
                                 .bytes());
      ExpectRefused(builder, "key list announces");
    }
  }
}

TEST(GgufMalformedTest, StringInsideArrayLongerThanTheFile) {
  GgufBuilder builder;
  builder.AddRaw("list", ByteWriter()
                             .PutType(GgufValueType::kArray)
                             .PutType(GgufValueType::kString)
                             .Put(uint64_t{2})
                             .PutString("fine")
                             .Put(~uint64_t{0})
                             .bytes());
  ExpectRefused(builder, "list needs 18446744073709551615 bytes");
}

TEST(GgufMalformedTest, NestedArrays) {
  ByteWriter nested;
  nested.PutType(GgufValueType::kArray);
  for (int depth = 0; depth < 10000; ++depth) {
    nested.PutType(GgufValueType::kArray).Put(uint64_t{1});
  }
  GgufBuilder builder;
  builder.AddRaw("deep", nested.bytes());
  ExpectRefused(builder, "array of arrays");
}

TEST(GgufMalformedTest, UnknownValueType) {
  for (const uint32_t type : {13u, 255u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    GgufBuilder scalar;
    scalar.AddRaw("odd", ByteWriter().Put(type).Put(uint64_t{0}).bytes());
    ExpectRefused(scalar, "key odd has unknown value type");
    GgufBuilder array;
    array.AddRaw("odd",
                 ByteWriter().PutType(GgufValueType::kArray).Put(type).Put(uint64_t{0}).bytes());
    ExpectRefused(array, "key odd has unknown value type");
  }
}

TEST(GgufMalformedTest, BoolNeitherZeroNorOne) {
  GgufBuilder builder;
  builder.Add("flag", GgufValueType::kBool, uint8_t{2});
  ExpectRefused(builder, "key flag: a bool is 0 or 1, not 2");
}

TEST(GgufMalformedTest, DuplicateKey) {
  GgufBuilder builder;
  builder.AddU32("twice", 1).AddU32("twice", 1);
  ExpectRefused(builder, "key twice appears twice");
}

TEST(GgufMalformedTest, DuplicateTensor) {
  GgufBuilder builder;
  builder.AddTensor("twice", TensorType::kF32, {8}, F32Bytes(8));
  builder.AddTensor("twice", TensorType::kF32, {8}, F32Bytes(8));
  ExpectRefused(builder, "tensor twice appears twice");
}

TEST(GgufMalformedTest, BadAlignment) {
  for (const uint32_t alignment : {0u, 1u, 3u, 4u, 33u, 1u << 21, 1u << 31, 0xFFFFFFFFu}) {
    GgufBuilder builder;
    builder.AddU32("general.alignment", alignment);
    ExpectRefused(builder, "general.alignment is ");
  }
}

TEST(GgufMalformedTest, AlignmentOfWrongType) {
  GgufBuilder builder;
  builder.Add("general.alignment", GgufValueType::kInt32, int32_t{32});
  ExpectRefused(builder, "key general.alignment is of type i32, not u32");
}

TEST(GgufMalformedTest, UnknownTensorType) {
  for (const uint32_t type : {4u, 5u, 31u, 40u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    ExpectRefused(WithTensor({32}, type), "tensor bad has unknown type");
  }
}

TEST(GgufMalformedTest, BadNumberOfDims) {
  ExpectRefused(WithTensor({}), "tensor bad has 0 dims");
  ExpectRefused(WithTensor({1, 1, 1, 1, 1}), "tensor bad has 5 dims");
  GgufBuilder builder = WithTensor({1});
  builder.AddRawInfo(ByteWriter()
                         .PutString("worse")
                         .Put(uint32_t{0xFFFFFFFF})
                         .PutRaw(std::string(64, '\1'))
                         .bytes());
  ++builder.num_tensors;
  ExpectRefused(builder, "tensor worse has 4294967295 dims");
}

TEST(GgufMalformedTest, DimsZeroOrNegative) {
  ExpectRefused(WithTensor({0}), "dim 0 is 0");
  ExpectRefused(WithTensor({4, -1}), "dim 1 is -1");
  ExpectRefused(WithTensor({std::numeric_limits<int64_t>::min()}), "dim 0 is -9223372036854775808");
}

TEST(GgufMalformedTest, DimsWhoseProductWraps) {
  const int64_t two32 = int64_t{1} << 32;
  ExpectRefused(WithTensor({two32, two32}), "product of its dims overflows");
  ExpectRefused(WithTensor({two32, two32, 2}), "product of its dims overflows");
  ExpectRefused(WithTensor({two32 + 1, two32, 1, 1}), "product of its dims overflows");
  ExpectRefused(WithTensor({int64_t{1} << 62}), "size in bytes overflows");
}

TEST(GgufMalformedTest, RowsOfPartialQuantBlocks) {
  ExpectRefused(WithTensor({33, 32}, static_cast<uint32_t>(TensorType::kQ4_1)),
                "rows of 33 elements are not whole blocks of 32");
  ExpectRefused(WithTensor({128}, static_cast<uint32_t>(TensorType::kQ6_K)), "whole blocks of 256");
}

TEST(GgufMalformedTest, OffsetUnaligned) {
  ExpectRefused(WithTensor({1}, 0, 4), "offset 4 is not a multiple of the alignment");
}

TEST(GgufMalformedTest, OffsetPastTheEnd) {
  ExpectRefused(WithTensor({1}, 0, 32), "reach past the end of the file");
  ExpectRefused(WithTensor({1}, 0, uint64_t{1} << 40), "reach past the end of the file");
  ExpectRefused(WithTensor({16}, 0, 0), "reach past the end of the file");
}

TEST(GgufMalformedTest, OffsetPlusSizeWraps) {
  ExpectRefused(WithTensor({8}, 0, ~uint64_t{0} - 31), "reach past the end of the file");
}

TEST(GgufMalformedTest, TensorsOverlap) {
  ExpectRefused(WithTensor({8}, 0, 0), "tensors present and bad overlap");
}

// A claim must not be paid for in memory before it is checked. The smallest of these lies would
// cost gigabytes; the bound leaves room for what a sanitizer keeps of freed memory.
TEST(GgufMalformedTest, LiesAllocateNothingHuge) {
  struct rusage before;
  getrusage(RUSAGE_SELF, &before);
  for (const uint64_t count : kHugeCounts) {
    GgufBuilder builder;
    builder.AddString("padding", std::string(1 << 20, 'x'));
    builder.num_entries = count;
    EXPECT_FALSE(ParseStatus(builder.Build()).ok());
    builder.num_entries = (1 << 20) / 14;  // could just fit
    EXPECT_FALSE(ParseStatus(builder.Build()).ok());
  }
  struct rusage after;
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 512 * 1024);  // KiB
}

}  // namespace
}  // namespace anchorage::files
