// Sums of q² per channel of the query heads over some tokens of a slice (every `every`-th), added to
// what earlier slices left: codecs of keys weigh their steps by them. q: [token][width], rotated.
// 64 channels per work-item.
static inline void mz_query_energy_item(__global const float* q, __global float* sums, uint width,
                                        uint tokens, uint every, uint item) {
  const uint first = item * 64u;
  if (first >= width) return;
  const uint last = min(width, first + 64u);
  for (uint channel = first; channel < last; ++channel) {
    float sum = 0.0f;
    for (uint token = 0; token < tokens; token += every) {
      const float value = q[(ulong)token * width + channel];
      sum += value * value;
    }
    sums[channel] += sum;
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_query_energy(__global const int* stop, __global const float* q,
                              __global float* sums, ulong sums_first, uint width, uint tokens,
                              uint every) {
  if (!mz_stopped(stop)) {
    mz_query_energy_item(q, sums + sums_first, width, tokens, every, get_global_id(0));
  }
}
#endif
