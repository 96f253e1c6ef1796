// The byte plan: what one request's KV cache will cost, to the byte, from its shape alone. Integers
// only; nothing here depends on the data, so a decode node can set the memory aside before prefill
// starts (AnchorKV, arXiv 2608.02901, eqs. 9 and 13, with the compact layout beside the paper's).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kv/plan/profile.h"

namespace anchorage::kv {

enum class Layout : uint8_t {
  kDense = 0,    // bf16 K after RoPE and V, every token: --kv none, and short prompts
  kCompact = 1,  // the served AnchorKV layout
  kPaper = 2,    // the paper's layout: planned, serialised and decoded for comparison, never served
  kSnapKv = 3,   // rows of some positions, chosen by the window's attention; the rest is gone
  kRecent = 4,   // rows of the first and the last positions; the rest is gone
};
const char* LayoutName(Layout layout);

// Whether the layout keeps the rows of some positions exactly and forgets the others: what AnchorKV
// is judged against at equal bytes.
inline bool EvictsPositions(Layout layout) {
  return layout == Layout::kSnapKv || layout == Layout::kRecent;
}

// Bump when the meaning of a layout's bytes changes: peers compare it.
inline constexpr uint32_t kLayoutVersion = 3;
inline constexpr int64_t kTensorAlignment = 64;  // bytes, of each tensor and of a region's size
inline constexpr int64_t kGeneratedBlockTokens = 32;
inline constexpr int64_t kPpm = 1'000'000;
inline constexpr int64_t kMaxHeadDim = 512;

// What the model contributes.
struct Geometry {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // a multiple of 8 in 8..kMaxHeadDim
};

// What the operator chooses. The same on every node that serves together (part of the fingerprint).
struct PlanOptions {
  Layout layout = Layout::kCompact;  // kDense: no compression at all
  int64_t theta_ppm = 50'000;        // retained share of the bytes: ratio 20
  int64_t window_len = 32;           // W
  int64_t num_pins = 4;       // first positions that are always anchors; 0 in the paper layout
  int64_t rho_ppm = 700'000;  // share of the paper layout's anchors that is chosen by score
  int64_t pool_width = 7;     // kappa
  int64_t utility_pool_width = 1023;    // of the residuals' ranking; 1 in the paper layout
  int64_t fine_share_ppm = 300'000;     // of the residuals' bytes that goes to fine slots
  int64_t floor_tokens = 128;           // the budget never falls below this many dense tokens
  uint64_t seed = 0x416e63686f7241ull;  // of the paper layout's uniform anchors
  Profile profile;                      // shares of the layers; the paper layout's are equal

  bool operator==(const PlanOptions&) const = default;
};

// `ratio` (20 = a twentieth) as theta_ppm, rounded down. 0 when ratio < 1, not finite, or so large
// that less than one ppm is left.
int64_t ThetaPpmFromRatio(double ratio);

// One tensor inside a layer's region. Little-endian, one after the other in the order of
// `LayerPlan::tensors`, each from a multiple of kTensorAlignment; bytes between them are zero.
// H heads, D head_dim, S prompt tokens, k anchors, W window, P = S - W, w = ceil(P / 64), N slots:
//   kDense    k [H,S,D] bf16 after RoPE, v [H,S,D] bf16
//   kCompact  anchor_k, anchor_v [H,k,D] i8; anchor_exponent_k, anchor_exponent_v [H,k] i8: the
//             first positions, the fitted ones, the window; idx_k, idx_v
//             [H,ceil(P/8),bits of k-1] u8; proj_k, proj_v [H,ceil(P/2)] u8, two codes a byte;
//             proj_level_k, proj_level_v [H,16] f32; pair_order_k [H,D/2] u8; key_gain_k [H,2]
//             f32; mask_k, mask_v [H,w] u64; prefix_k, prefix_v
//             [H,w] u32; offset_k, offset_v [H+1] u32; codes_k [N_K,D/4] u8; scale_k [N_K] bf16;
//             codes_v [N_V,D/4] u8; scale_v [N_V] bf16; and where there are fine slots, the same
//             from mask to scale for them: fine_mask_k, ..., fine_scale_v
//   kPaper    anchor_k, anchor_v [H,k,D] bf16; anchor_pos [H,k-W] i64; idx_k, idx_v [H,P] u16;
//             gamma_k, gamma_v [H,P] bf16; mask, prefix, offset as above; token_pos [P] i32;
//             codes_k [N_K,D/4] u8; scale_k [N_K] f32; codes_v, scale_v; slot_pos_v [N_V] u8
//   kSnapKv, kRecent  with n retained positions per head: retained_k [H,n,D] bf16 after RoPE,
//             retained_v [H,n,D] bf16; retained_pos [H,n] u32, ascending
struct TensorPlan {
  const char* name = "";
  int64_t offset = 0;  // from the region's start, a multiple of kTensorAlignment
  int64_t bytes = 0;   // without padding
};

// One layer of one request.
struct LayerPlan {
  Layout layout =
      Layout::kDense;          // kDense also when a compressed plan passes short prompts through
  int64_t seq_len = 0;         // S
  int64_t num_kv_heads = 0;    // H
  int64_t head_dim = 0;        // D
  int64_t window_len = 0;      // W; 0 when dense, and in kRecent, which observes nothing
  int64_t num_anchors = 0;     // k per KV head, window included; 0 when dense
  int64_t num_retained = 0;    // n rows per KV head, where the layout evicts positions
  int64_t num_pins = 0;        // first positions among the anchors, or among the retained rows
  int64_t num_fitted = 0;      // kCompact: anchors made from the prefix; pins + fitted = k - W
  int64_t num_scored = 0;      // kPaper: anchors by score; also retained rows
  int64_t num_uniform = 0;     // kPaper: anchors at random; scored + uniform = k - W
  int64_t key_slots = 0;       // N_K over all heads
  int64_t value_slots = 0;     // N_V
  int64_t key_fine_slots = 0;  // second codes
  int64_t value_fine_slots = 0;
  int64_t budget_bytes = 0;  // what theta, the floor and the layer's share allow
  int64_t base_bytes = 0;    // anchors, indices, projections, masks; eq. 13
  int64_t bytes = 0;         // base + slots: exact, without padding
  int64_t region_bytes = 0;  // with every tensor aligned: what an arena sets aside
  int64_t full_bytes = 0;    // M_full = 4 S H D
  // The budget cannot be met: a lowered floor, a wide window or a tiny head_dim leaves too little
  // for the smallest base, which is what the layer then costs.
  bool budget_infeasible = false;
  std::vector<TensorPlan> tensors;

  int64_t prefix_len() const { return seq_len - window_len; }  // P
  int64_t num_words() const { return (prefix_len() + 63) / 64; }
  // Positions per head that a decode step attends to: n where some were evicted, else S.
  int64_t num_rows() const { return EvictsPositions(layout) ? num_retained : seq_len; }
  const TensorPlan* Find(const char* name) const;  // null when the layout has no such tensor
};

// The whole request: `max_new` tokens may be generated after `seq_len` prompt tokens.
struct RequestPlan {
  std::vector<LayerPlan> layers;
  int64_t prompt_bytes = 0;           // sum of layers' bytes
  int64_t region_bytes = 0;           // sum of layers' region_bytes
  int64_t generated_blocks = 0;       // ceil(max_new / 32)
  int64_t generated_block_bytes = 0;  // one block over all layers, K and V, bf16
  int64_t bytes = 0;                  // region_bytes + generated_blocks * generated_block_bytes
  int64_t full_bytes = 0;             // dense bf16 cost of the prompt
};

// A sentence that says what is wrong with the geometry, the options or the lengths, or "".
// Checked here so that no number from outside sizes anything before it is known to be sane.
std::string CheckPlan(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                      int64_t max_new);

// Precondition: CheckPlan says "" and 0 <= layer < num_layers. A
// layer's bytes depend on (layer, S, geometry, options) alone. Their sum hardly depends on the
// profile: a layer leaves less than a slot unspent, or less than the index of fine slots where all
// first codes are bought.
LayerPlan PlanLayer(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                    int64_t layer);
// A layer whose residuals get `millibits` a coordinate (plan/profile.h), whatever theta and the
// profile say: what a calibration measures.
LayerPlan PlanLayerAtRate(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                          int64_t millibits);
// What the profile's calibration saw left of the next-token distribution's divergence, in 1e-9
// nats, with this layer alone compressed as `plan` says; 0 where it says nothing: no profile, or no
// compact layout.
int64_t NanonatsLeft(const PlanOptions& options, const LayerPlan& plan, int64_t layer);
RequestPlan PlanRequest(const Geometry& geometry, const PlanOptions& options, int64_t seq_len,
                        int64_t max_new);

// 64-bit digest of a profile's curves.
uint64_t ProfileFingerprint(const Profile& profile);

// 64-bit digest of everything that must agree between two nodes for a cache to mean the same:
// geometry, options, layout version. (The model's own digest is apart.)
uint64_t PlanFingerprint(const Geometry& geometry, const PlanOptions& options);

}  // namespace anchorage::kv
