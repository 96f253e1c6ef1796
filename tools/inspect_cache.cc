#include "tools/inspect_cache.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kernels/compact_cache.h"
#include "kernels/types.h"
#include "kv/layouts/reconstruct.h"
#include "kv/plan_flags.h"
#include "kv/rope_table.h"
#include "nlohmann/json.hpp"
#include "tools/npz_writer.h"

namespace anchorage::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBf16 = "bf16";

// How numpy sees a stored tensor.
struct ArrayType {
  std::string_view dtype;  // numpy's name, or kBf16
  std::vector<int64_t> shape;
};

constexpr std::string_view kFine = "fine_";

// "idx_k" -> "idx", "fine_mask_v" -> "mask": what the tensors of K and V and of both stages have in
// common.
std::string_view BaseName(std::string_view name) {
  if (name.ends_with("_k") || name.ends_with("_v")) name.remove_suffix(2);
  if (name.starts_with(kFine)) name.remove_prefix(kFine.size());
  return name;
}

int64_t SlotsOf(const kv::LayerPlan& plan, std::string_view name) {
  const bool key = name.ends_with("_k");
  if (name.starts_with(kFine)) return key ? plan.key_fine_slots : plan.value_fine_slots;
  return key ? plan.key_slots : plan.value_slots;
}

ArrayType TypeOf(const kv::LayerPlan& plan, std::string_view name) {
  const int64_t heads = plan.num_kv_heads;
  const int64_t selected = plan.num_anchors - plan.window_len;
  const int64_t slots = SlotsOf(plan, name);
  const int64_t index_groups =
      (plan.prefix_len() + kernels::kIndexGroup - 1) / kernels::kIndexGroup;
  const bool paper = plan.layout == kv::Layout::kPaper;
  const std::vector<int64_t> per_position = {heads, plan.prefix_len()};
  const std::vector<int64_t> per_word = {heads, plan.num_words()};
  const std::map<std::string_view, ArrayType> types = {
      {"k", {kBf16, {heads, plan.seq_len, plan.head_dim}}},
      {"v", {kBf16, {heads, plan.seq_len, plan.head_dim}}},
      {"retained", {kBf16, {heads, plan.num_retained, plan.head_dim}}},
      {"retained_pos", {"<u4", {heads, plan.num_retained}}},
      {"anchor", {paper ? kBf16 : "|i1", {heads, plan.num_anchors, plan.head_dim}}},
      {"anchor_exponent", {"|i1", {heads, plan.num_anchors}}},
      {"anchor_pos", {"<i8", {heads, selected}}},
      {"idx", paper
                  ? ArrayType{"<u2", per_position}
                  : ArrayType{"|u1", {heads, index_groups, kernels::IndexBits(plan.num_anchors)}}},
      {"proj", {"|u1", {heads, kernels::ProjectionRowBytes(plan.prefix_len())}}},
      {"proj_level", {"<f4", {heads, kernels::kNumProjectionLevels}}},
      {"pair_order", {"|u1", {heads, plan.head_dim / 2}}},
      {"key_gain", {"<f4", {heads, 2}}},
      {"gamma", {kBf16, per_position}},
      {"mask", {"<u8", per_word}},
      {"prefix", {"<u4", per_word}},
      {"offset", {"<u4", {heads + 1}}},
      {"token_pos", {"<i4", {plan.prefix_len()}}},
      {"codes", {"|u1", {slots, plan.head_dim / 4}}},
      {"scale", {paper ? "<f4" : kBf16, {slots}}},
      {"slot_pos", {"|u1", {slots}}},
  };
  return types.at(BaseName(name));
}

std::vector<float> Widen(std::span<const std::byte> bytes) {
  const std::span<const kernels::Bf16> values(reinterpret_cast<const kernels::Bf16*>(bytes.data()),
                                              bytes.size() / sizeof(kernels::Bf16));
  std::vector<float> wide;
  wide.reserve(values.size());
  for (const kernels::Bf16 value : values) wide.push_back(kernels::ToFloat(value));
  return wide;
}

absl::Status AddStored(NpzWriter& npz, const kv::SavedLayer& layer, const kv::TensorPlan& tensor) {
  const auto bytes =
      layer.region.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  const ArrayType type = TypeOf(layer.plan, tensor.name);
  if (type.dtype != kBf16) return npz.Add(tensor.name, type.dtype, type.shape, bytes);
  const std::vector<float> wide = Widen(bytes);
  return npz.Add(tensor.name, "<f4", type.shape, std::as_bytes(std::span(wide)));
}

const char* PackingName(kernels::CodePacking packing) {
  return packing == kernels::CodePacking::kPlanar ? "planar" : "linear";
}

// Bytes of each tensor over all layers, in the order of the layout. Only some layers have fine
// slots.
std::vector<kv::TensorPlan> TensorTotals(const kv::SavedCache& cache) {
  std::vector<kv::TensorPlan> totals;
  for (const kv::SavedLayer& layer : cache.layers) {
    for (const kv::TensorPlan& tensor : layer.plan.tensors) {
      const auto same = [&](const kv::TensorPlan& total) {
        return std::string_view(total.name) == tensor.name;
      };
      const auto found = std::find_if(totals.begin(), totals.end(), same);
      if (found == totals.end()) {
        totals.push_back(tensor);
      } else {
        found->bytes += tensor.bytes;
      }
    }
  }
  return totals;
}

std::vector<absl::Status> Verdicts(const kv::SavedCache& cache) {
  std::vector<absl::Status> verdicts;
  for (const kv::SavedLayer& layer : cache.layers) verdicts.push_back(VerifySavedLayer(layer));
  return verdicts;
}

struct Totals {
  int64_t bytes = 0;
  int64_t region_bytes = 0;
  int64_t full_bytes = 0;
};

Totals SumLayers(const kv::SavedCache& cache) {
  Totals totals;
  for (const kv::SavedLayer& layer : cache.layers) {
    totals.bytes += layer.plan.bytes;
    totals.region_bytes += layer.plan.region_bytes;
    totals.full_bytes += layer.plan.full_bytes;
  }
  return totals;
}

void PrintJson(const kv::SavedCache& cache, const std::vector<absl::Status>& verdicts) {
  const kv::CacheHeader& header = cache.header;
  Json tensors = Json::object();
  for (const kv::TensorPlan& tensor : TensorTotals(cache)) tensors[tensor.name] = tensor.bytes;
  Json layers = Json::array();
  for (size_t i = 0; i < verdicts.size(); ++i) {
    layers.push_back({{"bytes", cache.layers[i].plan.bytes},
                      {"checksum", absl::StrFormat("%016x", cache.layers[i].checksum)},
                      {"ok", verdicts[i].ok()},
                      {"problem", std::string(verdicts[i].message())}});
  }
  const Totals totals = SumLayers(cache);
  const Json answer = {{"format", "anchorkv"},
                       {"layout", kv::LayoutName(cache.layers.front().plan.layout)},
                       {"packing", PackingName(header.packing)},
                       {"layers", header.geometry.num_layers},
                       {"kv_heads", header.geometry.num_kv_heads},
                       {"head_dim", header.geometry.head_dim},
                       {"tokens", header.seq_len},
                       {"theta_ppm", header.options.theta_ppm},
                       {"anchors", cache.layers.front().plan.num_anchors},
                       {"retained", cache.layers.front().plan.num_retained},
                       {"model_fingerprint", absl::StrFormat("%016x", header.model_fingerprint)},
                       {"bytes", totals.bytes},
                       {"region_bytes", totals.region_bytes},
                       {"full_bytes", totals.full_bytes},
                       {"tensors", tensors},
                       {"verdicts", layers}};
  std::printf("%s\n", answer.dump().c_str());
}

void PrintText(const kv::SavedCache& cache, const std::vector<absl::Status>& verdicts) {
  const kv::CacheHeader& header = cache.header;
  const Totals totals = SumLayers(cache);
  std::printf("Saved cache: %s, %s layout, %s codes\n", kv::DescribeKv(header.options).c_str(),
              kv::LayoutName(cache.layers.front().plan.layout), PackingName(header.packing));
  std::printf("  %lld layers of %lld KV heads of %lld; %lld prompt tokens; model %016llx\n",
              static_cast<long long>(header.geometry.num_layers),
              static_cast<long long>(header.geometry.num_kv_heads),
              static_cast<long long>(header.geometry.head_dim),
              static_cast<long long>(header.seq_len),
              static_cast<unsigned long long>(header.model_fingerprint));
  std::printf("  %s instead of %s: %.2f times smaller\n", FormatBytes(totals.bytes).c_str(),
              FormatBytes(totals.full_bytes).c_str(),
              static_cast<double>(totals.full_bytes) / static_cast<double>(totals.bytes));
  std::printf("\nBy tensor, all layers\n");
  for (const kv::TensorPlan& tensor : TensorTotals(cache)) {
    std::printf("  %-14s %15lld  %s\n", tensor.name, static_cast<long long>(tensor.bytes),
                FormatBytes(tensor.bytes).c_str());
  }
  size_t good = 0;
  std::printf("\n");
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].ok()) ++good;
    if (!verdicts[i].ok()) {
      std::printf("  layer %zu: %s\n", i, std::string(verdicts[i].message()).c_str());
    }
  }
  std::printf("Checksums and contents: %zu of %zu layers good\n", good, verdicts.size());
}

}  // namespace

absl::Status PrintCache(const kv::SavedCache& cache, bool json) {
  const std::vector<absl::Status> verdicts = Verdicts(cache);
  if (json) {
    PrintJson(cache, verdicts);
  } else {
    PrintText(cache, verdicts);
  }
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (!verdicts[i].ok()) return Annotate(verdicts[i], absl::StrFormat("layer %d", i));
  }
  return absl::OkStatus();
}

absl::Status WriteLayerNpz(const kv::SavedCache& cache, int64_t layer, const std::string& path) {
  if (layer < 0 || layer >= static_cast<int64_t>(cache.layers.size())) {
    return Invalid("--layer: %d is not in 0..%d", layer, cache.layers.size() - 1);
  }
  const kv::SavedLayer& saved = cache.layers[static_cast<size_t>(layer)];
  RETURN_IF_ERROR(Annotate(VerifySavedLayer(saved), absl::StrFormat("layer %d", layer)));
  const kv::RopeTable rope(cache.header.rope_frequencies, cache.header.seq_len);
  ASSIGN_OR_RETURN(
      const kv::ReconstructedLayer rebuilt,
      kv::ReconstructLayer(saved.plan, saved.region, rope.view(), cache.header.packing));

  ASSIGN_OR_RETURN(NpzWriter npz, NpzWriter::Create(path));
  const int64_t shape[] = {saved.plan.num_kv_heads, saved.plan.num_rows(), saved.plan.head_dim};
  RETURN_IF_ERROR(npz.Add("reconstructed_k", "<f4", shape, std::as_bytes(std::span(rebuilt.k))));
  RETURN_IF_ERROR(npz.Add("reconstructed_v", "<f4", shape, std::as_bytes(std::span(rebuilt.v))));
  for (const kv::TensorPlan& tensor : saved.plan.tensors) {
    RETURN_IF_ERROR(AddStored(npz, saved, tensor));
  }
  return npz.Finish();
}

}  // namespace anchorage::tools
