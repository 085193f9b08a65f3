// The inner loops of q8 and q4 behind one dispatch point. Every variant gives the scalar
// reference's bits. Codes are 0 … top, 255 or 15; what follows is written for 255 and holds for 15,
// whose steps are larger.
//
// A group is 64 values (fewer only through staging) with two FP16 parameters: `near`, the end of
// its range with the smaller magnitude (the smaller end where both are equal), coded 0, and `far`,
// the other end, coded top. With
//   step = (far - near) · (1/top)      inverse = far == near ? 0 : top / (far - near)
// in FP32, without contraction,
//   Q(x) = round to nearest even of (x - near) · inverse      V(q) = fp16(near + q · step)
// and the code of x is the first of Q(x), Q(V(Q(x))), … that Q(V(·)) maps to itself. Both ends come
// back exactly: near because its code is 0, far because its magnitude is at least half the range,
// so that its FP16 rounding swallows every FP32 error. So the decoded group has the same near and
// far, and the same codes: decoding and encoding again changes nothing. (That the first Q(x) is
// nearly always the fixed point: V(q) is the FP16 value nearest to near + q · step, hence no
// further from it than x is; only FP32 rounding at a tie can break this.)
//
// This header is included by files compiled for newer processors than the rest: it holds no inline
// function that the linker could share with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mzcache::codec {

inline constexpr std::uint32_t kGroupValues = 64;
inline constexpr std::uint32_t kLanes = 32;

// All pointers may be unaligned. `near_values`, `far_values`, `values`, `out`: FP16.
struct Q8Kernels {
  const char* name;
  // 32 groups side by side: values[row][lane], parameters[lane], codes[row][lane]; rows 1 … 64.
  // False where a value is Inf or NaN, or a code needs more than Q(x) (the reference: where no code
  // is a fixed point); then the outputs mean nothing.
  bool (*encode_lanes)(const std::byte* values, std::uint32_t rows, std::byte* near_values,
                       std::byte* far_values, std::byte* codes, float top);
  void (*decode_lanes)(const std::byte* codes, std::uint32_t rows, const std::byte* near_values,
                       const std::byte* far_values, std::byte* out, bool streaming, float top);
  // One group per token, in two halves of 32 values whose rows are `stride` bytes apart:
  // left[token][32], right[token][32], parameters[token], codes[token][64].
  bool (*encode_rows)(const std::byte* left, const std::byte* right, std::size_t stride,
                      std::uint32_t tokens, std::byte* near_values, std::byte* far_values,
                      std::byte* codes, float top);
  void (*decode_rows)(const std::byte* codes, std::uint32_t tokens, const std::byte* near_values,
                      const std::byte* far_values, std::byte* left, std::byte* right,
                      std::size_t stride, bool streaming, float top);
  // Orders streaming stores before what follows. `streaming` wants outputs aligned to 64 bytes.
  void (*fence)();
};

extern const Q8Kernels kQ8Scalar;  // the reference
#if defined(__x86_64__)
extern const Q8Kernels kQ8Avx2;
extern const Q8Kernels kQ8Avx512;
#elif defined(__aarch64__)
extern const Q8Kernels kQ8Neon;
#endif

// The fastest variant this processor runs; decided once.
const Q8Kernels& q8_kernels() noexcept;
// All variants this processor runs, slowest first; for tests and benchmarks. At most 4.
std::size_t q8_kernel_variants(const Q8Kernels** out) noexcept;

}  // namespace mzcache::codec
