// The one kernel of the CPU set: runs operations from a list that the host wrote. A launch takes
// either one operation, or many, with a barrier between them on which the work-groups spin: valid
// only where all groups run at once, each on a core of its own. Both forms run the same code on the
// same items, and which group takes an item changes nothing: the results are the same bits.

// As gpu/cpu_operations.h has it.
typedef struct {
  uint kind;
  uint items;
  uint u[16];
  float f[4];
  ulong p[8];
} mz_operation;

#define MZ_OP_EMBED 0
#define MZ_OP_NORM 1
#define MZ_OP_ROPE_STORE 2
#define MZ_OP_ATTENTION 3
#define MZ_OP_MERGE 4
#define MZ_OP_GATE 5
#define MZ_OP_SOFTCAP 6
#define MZ_OP_PACK 7          // u: form, columns, tokens, planes
#define MZ_OP_PACK_FLOATS 8   // for mz_matmul_many
#define MZ_OP_ROW 9           // products: floats
#define MZ_OP_FEW 10
#define MZ_OP_MANY 11
#define MZ_OP_HALF_FEW 12
#define MZ_OP_BYTES_ROW 13    // products: bytes
#define MZ_OP_BYTES_FEW 14
#define MZ_OP_BYTES_MANY 15
#define MZ_OP_QUERY_ENERGY 16

#define MZ_PACK_ROW 0
#define MZ_PACK_PAIRS 1
#define MZ_PACK_LANES 2
#define MZ_PACK_FEW 3

#define MZ_FLOATS(I) ((__global float*)(size_t)op->p[I])
#define MZ_BYTES(I) ((__global uchar*)(size_t)op->p[I])

static inline void mz_pack_token(uint form, __global const float* x, __global uchar* out,
                                 uint columns, uint tokens, uint planes, uint token) {
  __global const float* from = token < tokens ? x + (size_t)token * columns : 0;
#if MZ_ROW_BYTE_TYPES
  if (form == MZ_PACK_ROW) mz_pack_row(from, out, columns, planes);
#endif
#if MZ_BYTE_TYPES
  if (form == MZ_PACK_LANES) {
    const size_t vectors = (tokens + MZ_WIDTH - 1) / MZ_WIDTH;
    mz_pack_lane(from, out, columns, token, planes, vectors * (columns / 32) * MZ_LANES_BLOCK);
  }
#if MZ_WIDTH == 16
  if (form == MZ_PACK_PAIRS) mz_pack_pair(from, out, columns, token, planes);
#endif
#endif
#if MZ_HALF_FEW_TYPES
  if (form == MZ_PACK_FEW) mz_pack_few(from, (__global float*)out, columns, token);
#endif
}

// Products: p = {unit, x, y}; offsets in p[3], p[4], row bytes in p[5]; u = {type, columns, rows,
// tokens, flags, rows per item, blocks of tokens, planes}.
static inline void mz_product(__global const mz_operation* op, uint item) {
  mz_bytes unit = MZ_BYTES(0);
  mz_bytes weights = unit + op->p[3];
  const uint type = op->u[0], columns = op->u[1], rows = op->u[2], tokens = op->u[3];
  const uint flags = op->u[4], each = op->u[5];
  __global float* y = MZ_FLOATS(2);
  switch (op->kind) {
#if MZ_PRODUCT_TYPES
    case MZ_OP_ROW:
      mz_matmul_row_item(unit, op->p[3], op->p[4], op->p[5], type, columns, rows, MZ_FLOATS(1), y,
                         each, flags, item);
      break;
#if !MZ_NARROW
    case MZ_OP_FEW:
      mz_matmul_few_item(unit, op->p[3], op->p[4], op->p[5], type, columns, rows, tokens,
                         MZ_FLOATS(1), y, each, flags, item);
      break;
#endif
    case MZ_OP_MANY:
      mz_matmul_many_item(unit, op->p[3], op->p[4], op->p[5], type, columns, rows, tokens,
                          MZ_FLOATS(1), y, flags, item / op->u[6], item % op->u[6]);
      break;
#endif
#if MZ_HALF_FEW_TYPES
    case MZ_OP_HALF_FEW:
      mz_half_few_item(type, weights, op->p[5], columns, rows, tokens, MZ_FLOATS(1), y, unit,
                       op->p[4], flags, each, item);
      break;
#endif
#if MZ_ROW_BYTE_TYPES
    case MZ_OP_BYTES_ROW:
      mz_bytes_row_item(type, weights, op->p[5], columns, rows, MZ_BYTES(1), y, unit, op->p[4],
                        flags, op->u[7], each, item);
      break;
#endif
#if MZ_BYTE_TYPES
    case MZ_OP_BYTES_FEW:
      mz_bytes_few_item(type, weights, op->p[5], columns, rows, tokens, MZ_BYTES(1), y, unit,
                        op->p[4], flags, op->u[7], each, item);
      break;
    case MZ_OP_BYTES_MANY:
      mz_bytes_many_item(type, weights, op->p[5], columns, rows, tokens, MZ_BYTES(1), y, unit,
                         op->p[4], flags, op->u[7], item);
      break;
#endif
    default:
      break;
  }
}

static inline void mz_item(__global const mz_operation* op, uint item) {
  switch (op->kind) {
    case MZ_OP_EMBED:
      mz_embed_item(MZ_BYTES(0), op->p[2], op->u[0], op->u[1], op->u[2], op->f[0], MZ_FLOATS(1),
                    item);
      break;
    case MZ_OP_NORM: {
      const uint columns = op->u[0];
      const uint from = op->u[2] ? ((__global const uint*)(size_t)op->p[3])[item] : item;
      mz_rms_norm_row(MZ_FLOATS(0) + (size_t)from * columns, MZ_FLOATS(1) + (size_t)item * columns,
                      MZ_FLOATS(2), columns, op->f[0], op->u[3]);
      break;
    }
    case MZ_OP_ROPE_STORE:
      mz_rope_store_item(MZ_FLOATS(0), MZ_FLOATS(1), MZ_FLOATS(2),
                         (__global const float2*)(size_t)op->p[3], 0,
                         (__global const ulong*)(size_t)op->p[4], 0, op->u[0], op->u[1], op->u[2],
                         op->u[3], op->u[4], op->u[5], op->u[6], item / op->u[7],
                         item % op->u[7]);
      break;
    case MZ_OP_ATTENTION: {
      const uint blocks = op->u[9], kv_heads = op->u[1];
      mz_attention_item(MZ_FLOATS(0), MZ_FLOATS(1), (__global float2*)(size_t)op->p[2], 0,
                        (__global const ulong*)(size_t)op->p[3], 0, op->u[0], kv_heads, op->u[2],
                        op->u[3], op->u[4], op->u[5], op->f[0], op->f[1], op->u[6], op->u[7],
                        op->u[8], op->u[10], item % blocks, item / blocks % kv_heads,
                        item / blocks / kv_heads);
      break;
    }
    case MZ_OP_MERGE:
      mz_attention_merge_item(MZ_FLOATS(0), (__global const float2*)(size_t)op->p[1], MZ_FLOATS(2),
                              op->u[0], op->u[1], op->u[2], item);
      break;
    case MZ_OP_GATE:
      mz_gate_item(MZ_FLOATS(0), MZ_FLOATS(1), op->u[0], op->u[1], item);
      break;
    case MZ_OP_SOFTCAP:
      mz_softcap_item(MZ_FLOATS(0), op->u[0], op->f[0], item);
      break;
    case MZ_OP_QUERY_ENERGY:
      mz_query_energy_item(MZ_FLOATS(0), MZ_FLOATS(1), op->u[0], op->u[1], op->u[2], item);
      break;
    case MZ_OP_PACK:
      mz_pack_token(op->u[0], MZ_FLOATS(0), MZ_BYTES(1), op->u[1], op->u[2], op->u[3],
                    item);
      break;
#if MZ_PRODUCT_TYPES
    case MZ_OP_PACK_FLOATS:
      mz_pack_item(MZ_FLOATS(0), MZ_FLOATS(1), op->u[1], op->u[2], item / op->u[3],
                   item % op->u[3]);
      break;
#endif
    default:
      mz_product(op, item);
      break;
  }
}

// Where `self` begins in the next product with one token, which memory is asked for while the group
// waits for the others: rows are too short for it otherwise.
static inline void mz_prefetch_next(__global const mz_operation* op, uint left, uint self,
                                    uint groups) {
  for (uint i = 0; i < min(left, 3u); ++i, ++op) {
    if (op->kind != MZ_OP_ROW && op->kind != MZ_OP_BYTES_ROW) continue;
    mz_bytes from = MZ_BYTES(0) + op->p[3] + op->items * self / groups * op->u[5] * op->p[5];
    for (uint at = 0; at < MZ_AHEAD; at += 64) MZ_PREFETCH(from + at);
    return;
  }
}

// OpenCL 1.2 pointers without an address space are private, which on the processor is any memory.
static inline volatile uint* mz_shared(__global uint* p) { return (volatile uint*)(size_t)p; }

// Spins after which a group offers its core, as its neighbour may be waiting for just that one; how
// often until the wait is a long one; and where long waits are counted, in words behind `arrived`.
#define MZ_SPINS 2000u
#define MZ_OFFERS 400u
#define MZ_WAITED 16u

static inline void mz_offer_core(void) {
#if defined(__linux__) && defined(__x86_64__)
  long result = 24;  // sched_yield
  __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
#endif
}

// taken: per group and operation, how many items of the group's share were taken; zero before.
// capacity: operations of a group in `taken`. arrived: at barriers, never reset; `before` of them
// when the launch was made.
MZ_KERNEL void mz_run(__global const int* stop, __global const mz_operation* operations,
                      __global uint* taken, __global uint* arrived, uint before, uint first,
                      uint last, uint groups, uint capacity) {
  if (first >= last) return;
  uint goal = before;
  for (uint i = first; i < last; ++i) {
    __global const mz_operation* op = operations + i;
    if (!mz_stopped(stop)) {
      // A share of neighbours for each group, which memory is read fastest in; then what others are
      // late with.
      const uint self = get_global_id(0);
      for (uint turn = 0; turn < groups; ++turn) {
        const uint share = (self + turn) % groups;
        const uint begin = op->items * share / groups, end = op->items * (share + 1) / groups;
        __global uint* counter = taken + share * capacity + i;
        for (;;) {
          const uint item = begin + __atomic_fetch_add(mz_shared(counter), 1u, __ATOMIC_RELAXED);
          if (item >= end) break;
          mz_item(op, item);
        }
      }
    }
    if (i + 1 == last) break;
    mz_prefetch_next(op + 1, last - i - 1, get_global_id(0), groups);
    goal += groups;
    __atomic_fetch_add(mz_shared(arrived), 1u, __ATOMIC_ACQ_REL);
    uint spins = 0;
    while ((int)(__atomic_load_n(mz_shared(arrived), __ATOMIC_ACQUIRE) - goal) < 0) {
      __builtin_ia32_pause();
      if (++spins < MZ_SPINS) continue;
      mz_offer_core();
      // Longer than any item takes: somebody else wants a core. The host will hear of it.
      if (spins == MZ_SPINS + MZ_OFFERS) {
        __atomic_fetch_add(mz_shared(arrived + MZ_WAITED), 1u, __ATOMIC_RELAXED);
      }
    }
  }
}
