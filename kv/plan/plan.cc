#include "kv/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace anchorage::kv {
namespace {

constexpr int64_t kBf16Bytes = 2;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxKvHeads = 1024;
constexpr int64_t kMaxTokens = int64_t{1} << 27;
constexpr int64_t kMaxPoolWidth = 255;
constexpr int64_t kMaxUtilityPoolWidth = 4095;
constexpr int64_t kTokensPerAnchor = 128;      // k grows by one anchor for so many prompt tokens
constexpr int64_t kExtraAnchors = 16;          // compact: k >= W + 16
constexpr int64_t kExtraPaperAnchors = 32;     // paper: k >= W + 32
constexpr int64_t kPassThroughExtra = 32;      // S <= 2 (W + 32) is not compressed
constexpr int64_t kMinExtraAnchors = 8;        // with a lowered floor: k >= W + 8
constexpr int64_t kMaxCompactAnchors = 512;    // nine bits of index
constexpr int64_t kMaxPaperAnchors = 1 << 16;  // sixteen bits of index
constexpr int64_t kProjectionLevels = 16;      // four bits a projection
constexpr int64_t kCodedKeyParts = 2;          // front and middle of a key's residual

constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// floor(bytes * ppm / 10^6), exact without 128-bit integers.
constexpr int64_t ShareOf(int64_t bytes, int64_t ppm) {
  return bytes / kPpm * ppm + bytes % kPpm * ppm / kPpm;
}

int64_t FullBytes(const Geometry& geometry, int64_t seq_len) {
  return 2 * kBf16Bytes * seq_len * geometry.num_kv_heads * geometry.head_dim;
}

int64_t BudgetBytes(const Geometry& geometry, const PlanOptions& options, int64_t seq_len) {
  const int64_t floor_bytes = FullBytes(geometry, std::min(seq_len, options.floor_tokens));
  return std::max(ShareOf(FullBytes(geometry, seq_len), options.theta_ppm), floor_bytes);
}

// A prompt this short has no prefix worth compressing: it passes through.
bool PassesThrough(const PlanOptions& options, int64_t seq_len) {
  return seq_len <= 2 * (options.window_len + kPassThroughExtra);
}

int64_t DefaultAnchors(const PlanOptions& options, int64_t seq_len) {
  const bool paper = options.layout == Layout::kPaper;
  const int64_t extra = paper ? kExtraPaperAnchors : kExtraAnchors;
  const int64_t cap = paper ? kMaxPaperAnchors : kMaxCompactAnchors;
  const int64_t grown = std::max(seq_len / kTokensPerAnchor, options.window_len + extra);
  return std::min({grown, cap, seq_len});
}

// Puts tensors one after the other, each aligned.
class RegionBuilder {
 public:
  explicit RegionBuilder(LayerPlan& plan) : plan_(plan) {}

  void Add(const char* name, int64_t bytes) {
    plan_.tensors.push_back({name, end_, bytes});
    plan_.bytes += bytes;
    end_ = RoundUp(end_ + bytes, kTensorAlignment);
    plan_.region_bytes = end_;
  }

  // The same tensor of K and of V.
  void AddBoth(const char* key_name, const char* value_name, int64_t bytes) {
    Add(key_name, bytes);
    Add(value_name, bytes);
  }

 private:
  LayerPlan& plan_;
  int64_t end_ = 0;
};

// Bits of an index among so many anchors.
int64_t IndexBits(int64_t num_anchors) {
  int64_t bits = 1;
  while (int64_t{1} << bits < num_anchors) ++bits;
  return bits;
}

// Everything but the residual slots.
void AddCompactBase(const LayerPlan& plan, RegionBuilder& region) {
  const int64_t heads = plan.num_kv_heads;
  const int64_t words = heads * plan.num_words();
  const int64_t index_groups = (plan.prefix_len() + 7) / 8;  // of eight positions
  region.AddBoth("anchor_k", "anchor_v", heads * plan.num_anchors * plan.head_dim);
  region.AddBoth("anchor_exponent_k", "anchor_exponent_v", heads * plan.num_anchors);
  region.AddBoth("idx_k", "idx_v", heads * index_groups * IndexBits(plan.num_anchors));
  region.AddBoth("proj_k", "proj_v", heads * ((plan.prefix_len() + 1) / 2));
  region.AddBoth("proj_level_k", "proj_level_v", 4 * heads * kProjectionLevels);
  region.Add("pair_order_k", heads * plan.head_dim / 2);
  region.Add("key_gain_k", 4 * heads * kCodedKeyParts);
  region.AddBoth("mask_k", "mask_v", 8 * words);
  region.AddBoth("prefix_k", "prefix_v", 4 * words);
  region.AddBoth("offset_k", "offset_v", 4 * (heads + 1));
}

// Eq. 13, its first eight rows in the order of the paper's table.
void AddPaperBase(const LayerPlan& plan, RegionBuilder& region) {
  const int64_t heads = plan.num_kv_heads;
  const int64_t prefix = heads * plan.prefix_len();
  const int64_t words = heads * plan.num_words();
  const int64_t selected = plan.num_anchors - plan.window_len;
  region.AddBoth("anchor_k", "anchor_v", kBf16Bytes * heads * plan.num_anchors * plan.head_dim);
  region.Add("anchor_pos", 8 * heads * selected);
  region.AddBoth("idx_k", "idx_v", 2 * prefix);
  region.AddBoth("gamma_k", "gamma_v", kBf16Bytes * prefix);
  region.AddBoth("mask_k", "mask_v", 8 * words);
  region.AddBoth("prefix_k", "prefix_v", 4 * words);
  region.AddBoth("offset_k", "offset_v", 4 * (heads + 1));
  region.Add("token_pos", 4 * plan.prefix_len());
}

void AddBase(const LayerPlan& plan, RegionBuilder& region) {
  if (plan.layout == Layout::kCompact) {
    AddCompactBase(plan, region);
  } else {
    AddPaperBase(plan, region);
  }
}

// Base bytes of `plan`'s shape with `num_anchors` anchors.
int64_t BaseBytes(const LayerPlan& plan, int64_t num_anchors) {
  LayerPlan trial = plan;
  trial.num_anchors = num_anchors;
  RegionBuilder region(trial);
  AddBase(trial, region);
  return trial.bytes;
}

// The most anchors, from W + 8 to `most`, whose base fits the budget; W + 8 when none does.
int64_t AnchorsWithin(const LayerPlan& plan, int64_t most) {
  if (BaseBytes(plan, most) <= plan.budget_bytes) return most;
  int64_t fits = plan.window_len + kMinExtraAnchors;
  int64_t too_many = most;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (BaseBytes(plan, middle) <= plan.budget_bytes ? fits : too_many) = middle;
  }
  return fits;
}

void SplitAnchors(const PlanOptions& options, LayerPlan& plan) {
  const int64_t others = plan.num_anchors - plan.window_len;
  if (options.layout == Layout::kCompact) {
    plan.num_pins = std::min(options.num_pins, others);
    plan.num_fitted = others - plan.num_pins;
  } else {
    plan.num_scored = others * options.rho_ppm / kPpm;
    plan.num_uniform = others - plan.num_scored;
  }
}

// What fine slots cost beside their codes: mask, prefix and offset of both sides.
int64_t FineIndexBytes(const LayerPlan& plan) {
  return 2 * (12 * plan.num_kv_heads * plan.num_words() + 4 * (plan.num_kv_heads + 1));
}

int64_t CompactSlotBytes(const LayerPlan& plan) { return plan.head_dim / 4 + kBf16Bytes; }

// Slots of both sides when no position goes without.
int64_t AllCompactSlots(const LayerPlan& plan) {
  return 2 * plan.num_kv_heads * (plan.prefix_len() - plan.num_pins);
}

// More than this, a compact layer cannot spend on residuals.
int64_t MostSlotBytes(const LayerPlan& plan) {
  return 2 * AllCompactSlots(plan) * CompactSlotBytes(plan) + FineIndexBytes(plan);
}

// Bytes for fine slots out of `slot_bytes`: their share, and whatever first codes have no use for.
int64_t FineBytes(const LayerPlan& plan, const PlanOptions& options, int64_t slot_bytes) {
  return std::max(ShareOf(slot_bytes, options.fine_share_ppm),
                  slot_bytes - AllCompactSlots(plan) * CompactSlotBytes(plan));
}

// A slot costs the same on both sides, so the slots are halved.
void BuyCompactSlots(const PlanOptions& options, int64_t slot_bytes, LayerPlan& plan,
                     RegionBuilder& region) {
  const int64_t cost = CompactSlotBytes(plan);
  const int64_t code_bytes = plan.head_dim / 4;
  const int64_t fine_bytes = FineBytes(plan, options, slot_bytes) - FineIndexBytes(plan);
  const int64_t most_fine =
      std::min(AllCompactSlots(plan), (slot_bytes - FineIndexBytes(plan)) / 2 / cost);
  int64_t fine = std::max<int64_t>(std::min(fine_bytes / cost, most_fine), 0);
  // Too few to be worth their index, as long as a first code can be had for it.
  const bool all_coarse = slot_bytes / cost > AllCompactSlots(plan);
  if (!all_coarse && fine * cost < FineIndexBytes(plan)) fine = 0;
  const int64_t spent = fine > 0 ? fine * cost + FineIndexBytes(plan) : 0;
  const int64_t coarse = std::min((slot_bytes - spent) / cost, AllCompactSlots(plan));
  plan.key_slots = coarse / 2;
  plan.value_slots = coarse - plan.key_slots;
  region.Add("codes_k", plan.key_slots * code_bytes);
  region.Add("scale_k", plan.key_slots * kBf16Bytes);
  region.Add("codes_v", plan.value_slots * code_bytes);
  region.Add("scale_v", plan.value_slots * kBf16Bytes);
  if (fine == 0) return;
  const int64_t words = plan.num_kv_heads * plan.num_words();
  plan.key_fine_slots = fine / 2;
  plan.value_fine_slots = fine - plan.key_fine_slots;
  region.AddBoth("fine_mask_k", "fine_mask_v", 8 * words);
  region.AddBoth("fine_prefix_k", "fine_prefix_v", 4 * words);
  region.AddBoth("fine_offset_k", "fine_offset_v", 4 * (plan.num_kv_heads + 1));
  region.Add("fine_codes_k", plan.key_fine_slots * code_bytes);
  region.Add("fine_scale_k", plan.key_fine_slots * kBf16Bytes);
  region.Add("fine_codes_v", plan.value_fine_slots * code_bytes);
  region.Add("fine_scale_v", plan.value_fine_slots * kBf16Bytes);
}

// Eq. 9: pairs of a key and a value slot, and one more value slot when the rest allows.
void BuyPaperSlots(int64_t bytes_left, LayerPlan& plan, RegionBuilder& region) {
  const int64_t code_bytes = plan.head_dim / 4;
  const int64_t key_cost = code_bytes + 4;
  const int64_t value_cost = code_bytes + 5;
  const int64_t cap = plan.num_kv_heads * (plan.seq_len - plan.num_anchors);
  const int64_t pairs = std::min(bytes_left / (key_cost + value_cost), cap);
  const int64_t rest = bytes_left - pairs * (key_cost + value_cost);
  plan.key_slots = pairs;
  plan.value_slots = pairs + (pairs < cap && rest >= value_cost ? 1 : 0);
  region.Add("codes_k", plan.key_slots * code_bytes);
  region.Add("scale_k", plan.key_slots * 4);
  region.Add("codes_v", plan.value_slots * code_bytes);
  region.Add("scale_v", plan.value_slots * 4);
  region.Add("slot_pos_v", plan.value_slots);
}

void PlanDense(const Geometry& geometry, LayerPlan& plan) {
  plan.layout = Layout::kDense;
  RegionBuilder region(plan);
  region.AddBoth("k", "v", plan.full_bytes / 2);
  plan.base_bytes = plan.bytes;
  plan.budget_infeasible = plan.bytes > plan.budget_bytes;
}

// As many rows as the budget has room for, and never fewer than the layout makes sense with. SnapKV
// keeps the window and the best of the prefix; the other the first num_pins and the last positions.
void PlanRetained(const PlanOptions& options, LayerPlan& plan) {
  const int64_t row_bytes = plan.num_kv_heads * (2 * kBf16Bytes * plan.head_dim + 4);
  const bool by_score = plan.layout == Layout::kSnapKv;
  const int64_t least = by_score ? options.window_len : 1;
  plan.num_retained = std::max(plan.budget_bytes / row_bytes, least);
  if (by_score) {
    plan.window_len = options.window_len;
    plan.num_scored = plan.num_retained - plan.window_len;
  } else {
    plan.num_pins = std::min(options.num_pins, plan.num_retained - 1);
  }
  const int64_t rows = plan.num_kv_heads * plan.num_retained;
  RegionBuilder region(plan);
  region.AddBoth("retained_k", "retained_v", kBf16Bytes * rows * plan.head_dim);
  region.Add("retained_pos", 4 * rows);
  plan.base_bytes = plan.bytes;
  plan.budget_infeasible = plan.bytes > plan.budget_bytes;
}

// What all layers of a request share: everything but the slots. Its budget is an equal share.
LayerPlan PlanBase(const Geometry& geometry, const PlanOptions& options, int64_t seq_len) {
  LayerPlan plan;
  plan.layout = options.layout;
  plan.seq_len = seq_len;
  plan.num_kv_heads = geometry.num_kv_heads;
  plan.head_dim = geometry.head_dim;
  plan.full_bytes = FullBytes(geometry, seq_len);
  const bool compressed = options.layout != Layout::kDense;
  plan.budget_bytes = compressed ? BudgetBytes(geometry, options, seq_len) : plan.full_bytes;
  if (!compressed || PassesThrough(options, seq_len)) {
    PlanDense(geometry, plan);
    return plan;
  }
  if (EvictsPositions(options.layout)) {
    PlanRetained(options, plan);
    return plan;
  }
  plan.window_len = options.window_len;
  plan.num_anchors = AnchorsWithin(plan, DefaultAnchors(options, seq_len));
  SplitAnchors(options, plan);
  plan.base_bytes = BaseBytes(plan, plan.num_anchors);
  plan.budget_infeasible = plan.base_bytes > plan.budget_bytes;
  return plan;
}

// Of the prefix, K and V.
int64_t Coordinates(const LayerPlan& base) {
  return 2 * base.num_kv_heads * base.prefix_len() * base.head_dim;
}

// Bytes for the slots of each layer.
std::vector<int64_t> SlotBytes(const Geometry& geometry, const PlanOptions& options,
                               const LayerPlan& base) {
  const int64_t equal = std::max<int64_t>(base.budget_bytes - base.base_bytes, 0);
  if (base.layout != Layout::kCompact || options.profile.empty()) {
    return std::vector<int64_t>(static_cast<size_t>(geometry.num_layers), equal);
  }
  return ShareBytes(options.profile, geometry.num_layers, Coordinates(base), MostSlotBytes(base),
                    geometry.num_layers * equal);
}

LayerPlan PlanWithSlots(const PlanOptions& options, const LayerPlan& base, int64_t slot_bytes) {
  LayerPlan plan = base;
  if (plan.layout == Layout::kDense || EvictsPositions(plan.layout)) return plan;
  if (!plan.budget_infeasible) plan.budget_bytes = plan.base_bytes + slot_bytes;
  RegionBuilder region(plan);
  AddBase(plan, region);
  if (plan.layout == Layout::kCompact) {
    BuyCompactSlots(options, slot_bytes, plan, region);
  } else {
    BuyPaperSlots(slot_bytes, plan, region);
  }
  return plan;
}

std::string OutOfRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return "";
  return std::string(name) + " must be in " + std::to_string(low) + ".." + std::to_string(high) +
         ", got " + std::to_string(value);
}

// A profile that is known to belong to another geometry.
std::string OtherHeads(const Geometry& geometry, const Profile& profile) {
  if (profile.num_kv_heads == 0 && profile.head_dim == 0) return "";
  if (profile.num_kv_heads == geometry.num_kv_heads && profile.head_dim == geometry.head_dim) {
    return "";
  }
  return "profile: it belongs to a model of " + std::to_string(profile.num_kv_heads) +
         " KV heads of " + std::to_string(profile.head_dim) + ", this one has " +
         std::to_string(geometry.num_kv_heads) + " of " + std::to_string(geometry.head_dim);
}

// The finaliser of SplitMix64 over a running digest: every bit of every field moves every bit.
class Digest {
 public:
  void Add(uint64_t value) {
    state_ += value + 0x9e3779b97f4a7c15ull;
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9ull;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebull;
    state_ ^= state_ >> 31;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0;
};

}  // namespace

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kDense:
      return "dense";
    case Layout::kCompact:
      return "compact";
    case Layout::kPaper:
      return "paper";
    case Layout::kSnapKv:
      return "snapkv";
    case Layout::kRecent:
      return "recent";
  }
  return "unknown";
}

int64_t ThetaPpmFromRatio(double ratio) {
  if (!std::isfinite(ratio) || ratio < 1) return 0;
  return static_cast<int64_t>(static_cast<double>(kPpm) / ratio);
}

const TensorPlan* LayerPlan::Find(const char* name) const {
  for (const TensorPlan& tensor : tensors) {
    if (std::strcmp(tensor.name, name) == 0) return &tensor;
  }
  return nullptr;
}

std::string CheckPlan(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                      int64_t max_new) {
  if (options.layout > Layout::kRecent) {
    return "unknown layout " + std::to_string(static_cast<int>(options.layout));
  }
  const int64_t max_window = kMaxCompactAnchors - kPassThroughExtra;
  for (const std::string& problem : {
           OutOfRange("layers", geometry.num_layers, 1, kMaxLayers),
           OutOfRange("KV heads", geometry.num_kv_heads, 1, kMaxKvHeads),
           OutOfRange("head dimension", geometry.head_dim, 8, kMaxHeadDim),
           OutOfRange("retained share in ppm", options.theta_ppm, 1, kPpm),
           OutOfRange("window", options.window_len, 1, max_window),
           OutOfRange("pinned anchors", options.num_pins, 0, kMaxCompactAnchors),
           OutOfRange("scored share in ppm", options.rho_ppm, 0, kPpm),
           OutOfRange("pooling width", options.pool_width, 1, kMaxPoolWidth),
           OutOfRange("utilities' pooling width", options.utility_pool_width, 1,
                      kMaxUtilityPoolWidth),
           OutOfRange("share of fine slots in ppm", options.fine_share_ppm, 0, kPpm),
           OutOfRange("floor in tokens", options.floor_tokens, 0, kMaxTokens),
           OutOfRange("prompt tokens", seq_len, 1, kMaxTokens),
           OutOfRange("new tokens", max_new, 0, kMaxTokens),
       }) {
    if (!problem.empty()) return problem;
  }
  if (const std::string problem = CheckProfile(options.profile, geometry.num_layers);
      !problem.empty()) {
    return "profile: " + problem;
  }
  if (const std::string problem = OtherHeads(geometry, options.profile); !problem.empty()) {
    return problem;
  }
  if (geometry.head_dim % 8 != 0) {
    return "head dimension must be a multiple of 8, got " + std::to_string(geometry.head_dim);
  }
  for (const int64_t width : {options.pool_width, options.utility_pool_width}) {
    if (width % 2 == 0) return "a pooling width must be odd, got " + std::to_string(width);
  }
  if (options.layout == Layout::kDense || PassesThrough(options, seq_len)) return "";
  if (geometry.num_kv_heads * seq_len > int64_t{UINT32_MAX}) {
    return "too many positions for 32-bit slot numbers: " + std::to_string(geometry.num_kv_heads) +
           " KV heads of " + std::to_string(seq_len) + " tokens";
  }
  return "";
}

LayerPlan PlanLayer(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                    int64_t layer) {
  const LayerPlan base = PlanBase(geometry, options, seq_len);
  return PlanWithSlots(options, base,
                       SlotBytes(geometry, options, base)[static_cast<size_t>(layer)]);
}

LayerPlan PlanLayerAtRate(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                          int64_t millibits) {
  const LayerPlan base = PlanBase(geometry, options, seq_len);
  return PlanWithSlots(options, base, BytesAtRate(Coordinates(base), millibits));
}

int64_t NanonatsLeft(const PlanOptions& options, const LayerPlan& plan, int64_t layer) {
  if (plan.layout != Layout::kCompact || options.profile.empty()) return 0;
  return NanonatsLeft(options.profile, layer, Coordinates(plan), plan.bytes - plan.base_bytes);
}

RequestPlan PlanRequest(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                        int64_t max_new) {
  RequestPlan request;
  request.layers.reserve(static_cast<size_t>(geometry.num_layers));
  const LayerPlan base = PlanBase(geometry, options, seq_len);
  for (const int64_t slot_bytes : SlotBytes(geometry, options, base)) {
    request.layers.push_back(PlanWithSlots(options, base, slot_bytes));
    request.prompt_bytes += request.layers.back().bytes;
    request.region_bytes += request.layers.back().region_bytes;
    request.full_bytes += request.layers.back().full_bytes;
  }
  request.generated_blocks = (max_new + kGeneratedBlockTokens - 1) / kGeneratedBlockTokens;
  request.generated_block_bytes = geometry.num_layers * FullBytes(geometry, kGeneratedBlockTokens);
  request.bytes = request.region_bytes + request.generated_blocks * request.generated_block_bytes;
  return request;
}

uint64_t ProfileFingerprint(const Profile& profile) {
  Digest digest;
  digest.Add(profile.millibits.size());
  for (const int64_t rate : profile.millibits) digest.Add(static_cast<uint64_t>(rate));
  for (const int64_t error : profile.nanonats) digest.Add(static_cast<uint64_t>(error));
  return digest.value();
}

uint64_t PlanFingerprint(const Geometry& geometry, const PlanOptions& options) {
  Digest digest;
  digest.Add(kLayoutVersion);
  for (const int64_t field :
       {geometry.num_layers, geometry.num_kv_heads, geometry.head_dim,
        static_cast<int64_t>(options.layout), options.theta_ppm, options.window_len,
        options.num_pins, options.rho_ppm, options.pool_width, options.utility_pool_width,
        options.fine_share_ppm, options.floor_tokens}) {
    digest.Add(static_cast<uint64_t>(field));
  }
  digest.Add(options.seed);
  digest.Add(ProfileFingerprint(options.profile));
  return digest.value();
}

}  // namespace anchorage::kv
