#include "bench/wire_survey.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "bench/symbol_entropy.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kernels/compact_cache.h"

namespace anchorage::bench {
namespace {

// What a tensor's bytes are.
struct Kind {
  const char* stem;  // of its name, without _k or _v
  const char* group;
  int bits = 8;          // of a symbol; 0: of an index
  int lanes = 1;         // bytes of an element, each with statistics of its own
  bool by_head = false;  // so have the heads
};
constexpr Kind kKinds[] = {
    {"anchor", "anchors"},
    {"anchor_exponent", "anchors"},
    {"idx", "indices", 0, 1, true},
    {"proj", "projections", 4, 1, true},
    {"proj_level", "projection levels", 8, 4},
    {"pair_order", "key codes"},
    {"key_gain", "key codes", 8, 4},
    {"mask", "masks"},
    {"prefix", "prefixes and offsets", 8, 4},
    {"offset", "prefixes and offsets", 8, 4},
    {"codes", "first codes", 2},
    {"scale", "first scales", 8, 2},
    {"fine_mask", "fine masks"},
    {"fine_prefix", "fine prefixes and offsets", 8, 4},
    {"fine_offset", "fine prefixes and offsets", 8, 4},
    {"fine_codes", "fine codes", 2},
    {"fine_scale", "fine scales", 8, 2},
};

// Null: a tensor of no compact layer.
const Kind* KindOf(std::string_view name) {
  if (name.ends_with("_k") || name.ends_with("_v")) name.remove_suffix(2);
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& some) { return name == some.stem; });
  return kind == std::end(kKinds) ? nullptr : kind;
}

std::vector<Part> LanesOf(const kv::TensorPlan& tensor, int lanes) {
  std::vector<Part> parts;
  for (int i = 0; i < lanes; ++i) parts.push_back({tensor.offset + i, tensor.bytes / lanes, lanes});
  return parts;
}

int64_t CodedBytes(const CodedParts& coded) {
  return static_cast<int64_t>(std::accumulate(coded.frames.begin(), coded.frames.end(), size_t{0}));
}

double OrderZeroBytes(const kv::CompressedLayer& layer, const kv::TensorPlan& tensor,
                      const Kind& kind) {
  const int bits = kind.bits > 0 ? kind.bits : kernels::IndexBits(layer.plan.num_anchors);
  const int64_t rows = kind.by_head ? layer.plan.num_kv_heads : 1;
  const int64_t row_bytes = tensor.bytes / rows;
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* begin = layer.region.data() + tensor.offset + row * row_bytes;
    for (int64_t lane = 0; lane < kind.lanes; ++lane) {
      std::vector<std::byte> bytes;
      for (int64_t i = lane; i < row_bytes; i += kind.lanes) bytes.push_back(begin[i]);
      sum += OrderZeroBits(bytes, bits) / 8;
    }
  }
  return sum;
}

}  // namespace

WireGroup& WireSurvey::Named(const char* name) {
  for (WireGroup& group : groups_) {
    if (std::string_view(group.name) == name) return group;
  }
  return groups_.emplace_back(WireGroup{name});
}

absl::Status WireSurvey::Add(const kv::CompressedLayer& layer, RegionCoder& coder) {
  // The padding stays at the end.
  WireGroup padding = {"padding"};
  if (!groups_.empty()) {
    padding = groups_.back();
    groups_.pop_back();
  }
  CodedParts coded;
  for (const kv::TensorPlan& tensor : layer.plan.tensors) {
    if (tensor.bytes == 0) continue;
    const Kind* kind = KindOf(tensor.name);
    if (kind == nullptr) return Internal("no compact layer has a tensor %s", tensor.name);
    WireGroup& group = Named(kind->group);
    group.bytes += tensor.bytes;
    group.order_zero_bytes += OrderZeroBytes(layer, tensor, *kind);
    const Part whole{tensor.offset, tensor.bytes, 1};
    RETURN_IF_ERROR(coder.Code(layer.region.span(), {&whole, 1}, coded));
    group.zstd_bytes += CodedBytes(coded);
    const std::vector<Part> lanes = LanesOf(tensor, kind->lanes);
    RETURN_IF_ERROR(coder.Code(layer.region.span(), lanes, coded));
    group.lanes_bytes += CodedBytes(coded);
    for (size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes_[{tensor.name, i}];
      lane.bytes += lanes[i].count;
      lane.coded_bytes += static_cast<int64_t>(coded.frames[i]);
    }
  }
  padding.bytes += layer.plan.region_bytes - layer.plan.bytes;
  groups_.push_back(padding);
  return absl::OkStatus();
}

std::vector<Part> WireSurvey::PartsThatShrink(const kv::LayerPlan& plan, double share) const {
  std::vector<Part> parts;
  for (const kv::TensorPlan& tensor : plan.tensors) {
    if (tensor.bytes == 0) continue;
    const std::vector<Part> lanes = LanesOf(tensor, KindOf(tensor.name)->lanes);
    for (size_t i = 0; i < lanes.size(); ++i) {
      const Lane& lane = lanes_.at({tensor.name, i});
      if (static_cast<double>(lane.coded_bytes) <= share * static_cast<double>(lane.bytes)) {
        parts.push_back(lanes[i]);
      }
    }
  }
  return parts;
}

}  // namespace anchorage::bench
