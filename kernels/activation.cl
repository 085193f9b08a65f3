// The gated feed-forward's middle: gate = act(gate) · up over all values, 1024 per work-item.
// kind 0: SiLU (SwiGLU); 1: GELU in its tanh form (GeGLU).
static inline void mz_gate_item(__global float* gate, __global const float* up, uint values,
                                uint kind, uint item) {
  const uint first = item * 1024u;
  if (first >= values) return;
  const uint last = min(values, first + 1024u);  // values is a multiple of 16
  for (uint i = first; i < last; i += 16) {
    const float16 g = vload16(0, gate + i);
    float16 a;
    if (kind == 0) {
      a = g / (1.0f + mz_exp2_16(g * -MZ_LOG2E));
    } else {
      a = 0.5f * g * (1.0f + mz_tanh16(0.79788456f * g * (1.0f + 0.044715f * g * g)));
    }
    vstore16(a * vload16(0, up + i), 0, gate + i);
  }
}

// x = cap · tanh(x / cap), 1024 values per work-item (logits of some families).
static inline void mz_softcap_item(__global float* x, uint values, float cap, uint item) {
  const uint first = item * 1024u;
  if (first >= values) return;
  const uint last = min(values, first + 1024u);
  uint i = first;
  for (; i + 16 <= last; i += 16) vstore16(mz_tanh16(vload16(0, x + i) / cap) * cap, 0, x + i);
  for (; i < last; ++i) x[i] = mz_tanh16((float16)(x[i] / cap)).s0 * cap;
}

#if !MZ_CPU
MZ_KERNEL void mz_gate(__global const int* stop, __global float* gate, __global const float* up,
                      uint values, uint kind) {
  if (!mz_stopped(stop)) mz_gate_item(gate, up, values, kind, get_global_id(0));
}
MZ_KERNEL void mz_softcap(__global const int* stop, __global float* x, uint values, float cap) {
  if (!mz_stopped(stop)) mz_softcap_item(x, values, cap, get_global_id(0));
}
#endif
