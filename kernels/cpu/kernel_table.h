// The functions of one instruction set, reached through one table that is chosen at run time.
//
// Each op has a header here, cpu/<op>_kernels.h, with a struct of plain function pointers and one
// constant of it per instruction set, defined in cpu/<isa>/<op>.cc. Those files alone are compiled
// with the set's flags, so nothing else may be called from outside the table.
#pragma once

#include "kernels/cpu/anchor_kernels.h"
#include "kernels/cpu/decode_kernels.h"
#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/prefill_attention_kernels.h"

namespace anchorage::kernels {

struct KernelTable {
  const AnchorKernels* anchor = nullptr;
  const DecodeKernels* decode = nullptr;
  const ElementwiseKernels* elementwise = nullptr;
  const MatmulKernels* matmul = nullptr;
  const PrefillAttentionKernels* prefill_attention = nullptr;
};

// The table of ActiveIsa().
const KernelTable& ActiveKernels();

}  // namespace anchorage::kernels
