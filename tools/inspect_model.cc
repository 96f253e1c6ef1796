#include "tools/inspect_model.h"

#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/bytes.h"
#include "files/tensor_type.h"
#include "kv/layer_cache.h"
#include "nlohmann/json.hpp"

namespace anchorage::tools {
namespace {

using Json = nlohmann::ordered_json;

struct TypeTotal {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

std::map<std::string, TypeTotal> TotalsByType(const files::GgufFile& file) {
  std::map<std::string, TypeTotal> totals;
  for (const files::TensorView& tensor : file.tensors()) {
    TypeTotal& total = totals[std::string(files::TensorTypeName(tensor.type))];
    ++total.tensors;
    total.bytes += static_cast<int64_t>(tensor.data.size());
  }
  return totals;
}

std::string Digest(const files::GgufFile& file) {
  return absl::StrFormat("%016x", kv::Checksum(file.bytes()));
}

void PrintJson(const files::GgufFile& file) {
  Json metadata = Json::object();
  for (const files::MetadataEntry& entry : file.metadata()) {
    metadata[std::string(entry.key)] = entry.ToString();
  }
  Json types = Json::object();
  for (const auto& [name, total] : TotalsByType(file)) {
    types[name] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  }
  Json tensors = Json::array();
  for (const files::TensorView& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", std::string(files::TensorTypeName(tensor.type))},
                       {"dims", tensor.dims},
                       {"bytes", tensor.data.size()}});
  }
  const Json answer = {{"format", "gguf"},     {"bytes", file.bytes().size()},
                       {"xxh3", Digest(file)}, {"alignment", file.alignment()},
                       {"metadata", metadata}, {"types", types},
                       {"tensors", tensors}};
  // Metadata may hold any bytes; what is not UTF-8 is shown as the replacement character.
  std::printf("%s\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void PrintText(const files::GgufFile& file) {
  std::printf("GGUF model, %s, alignment %u, XXH3-64 %s\n",
              FormatBytes(static_cast<int64_t>(file.bytes().size())).c_str(), file.alignment(),
              Digest(file).c_str());
  std::printf("\nMetadata\n");
  for (const files::MetadataEntry& entry : file.metadata()) {
    std::printf("  %-44s %s\n", std::string(entry.key).c_str(), entry.ToString().c_str());
  }
  std::printf("\nBy type\n");
  for (const auto& [name, total] : TotalsByType(file)) {
    std::printf("  %-8s %6lld tensors %15lld  %s\n", name.c_str(),
                static_cast<long long>(total.tensors), static_cast<long long>(total.bytes),
                FormatBytes(total.bytes).c_str());
  }
  std::printf("\nTensors\n");
  for (const files::TensorView& tensor : file.tensors()) {
    std::printf("  %-44s %-6s %15zu  [%s]\n", tensor.name.c_str(),
                std::string(files::TensorTypeName(tensor.type)).c_str(), tensor.data.size(),
                absl::StrJoin(tensor.dims, ", ").c_str());
  }
}

}  // namespace

void PrintModel(const files::GgufFile& file, bool json) {
  if (json) {
    PrintJson(file);
  } else {
    PrintText(file);
  }
}

}  // namespace anchorage::tools
