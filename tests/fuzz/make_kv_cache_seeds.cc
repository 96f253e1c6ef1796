// Writes the inputs that the cache fuzzer starts from: make_kv_cache_seeds FOLDER.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "kv/serialized.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

void Append(std::string& text, std::span<const std::byte> bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A whole file of one layer behind the byte that says so.
std::string File(const LayerShape& shape, Layout layout, const Profile& profile = {}) {
  PlanOptions options;
  options.layout = layout;
  const MadeUpLayer made(shape);
  const auto compressed = made.Compress(options);
  if (!compressed.ok()) return "";
  CacheHeader header;
  header.geometry = {1, shape.num_kv_heads, shape.head_dim};
  header.options = options;
  header.options.profile = profile;  // of one layer: it changes no byte
  header.seq_len = shape.seq_len;
  header.rope_frequencies = RopeFrequencies(10'000, shape.head_dim, {});
  std::string file(1, '\0');
  Append(file, SerializeHeader(header));
  Append(file, SerializeLayerHead(0, static_cast<int64_t>(compressed->region.size()),
                                  compressed->checksum));
  Append(file, compressed->region.span());
  return file;
}

// Patches of value 0 and 255 all over the good layer that `choice` picks.
std::string Patches(int choice) {
  std::string text(1, static_cast<char>(128 + choice));
  for (uint32_t offset = 0; offset < 40; ++offset) {
    Append(text, std::as_bytes(std::span(&offset, 1)));
    text.push_back(offset % 2 == 0 ? '\0' : '\xff');
  }
  return text;
}

}  // namespace
}  // namespace anchorage::kv

int main(int argc, char** argv) {
  using namespace anchorage::kv;  // NOLINT: main cannot stand inside
  if (argc != 2) {
    std::cerr << "make_kv_cache_seeds: one argument, the folder to write to\n";
    return 2;
  }
  const std::vector<std::string> seeds = {
      File({20, 1, 1, 8}, Layout::kDense),
      File({100, 1, 1, 8}, Layout::kCompact),
      File({150, 1, 1, 16}, Layout::kCompact),
      File({150, 1, 1, 16}, Layout::kCompact, {{0, 1000}, {9, 2}, 1, 16}),
      File({150, 1, 1, 16}, Layout::kPaper),
      File({150, 1, 1, 16}, Layout::kSnapKv),
      File({150, 1, 1, 16}, Layout::kRecent),
      Patches(0),
      Patches(1),
      Patches(2),
      Patches(3),
      Patches(4),
      Patches(5)};
  std::filesystem::create_directories(argv[1]);
  for (size_t i = 0; i < seeds.size(); ++i) {
    const auto path = std::filesystem::path(argv[1]) / ("seed_" + std::to_string(i));
    std::ofstream out(path, std::ios::binary);
    out << seeds[i];
    if (seeds[i].empty() || !out) {
      std::cerr << "make_kv_cache_seeds: cannot write " << path << "\n";
      return 1;
    }
  }
  return 0;
}
