#pragma once

/// The families of kernels, each a file in executor/cpu/kernels and one in executor/gpu/kernels that defines
/// NAME_kernels(). A new family is listed in this file, nowhere else.
#define PIPESIM_KERNEL_FAMILIES(FAMILY) \
  FAMILY(attention)                     \
  FAMILY(bahdanau)                      \
  FAMILY(batch_norm)                    \
  FAMILY(binary)                        \
  FAMILY(conv2d)                        \
  FAMILY(cross_entropy)                 \
  FAMILY(dropout)                       \
  FAMILY(elementwise)                   \
  FAMILY(embedding)                     \
  FAMILY(expert)                        \
  FAMILY(linear)                        \
  FAMILY(lstm_cell)                     \
  FAMILY(pool2d)                        \
  FAMILY(reduce)                        \
  FAMILY(rotary)                        \
  FAMILY(row_norm)                      \
  FAMILY(shape)                         \
  FAMILY(softmax)

/// The families that only CPUs have.
#define PIPESIM_CPU_KERNEL_FAMILIES(FAMILY) \
  FAMILY(causal_convolution)                \
  FAMILY(conv_transpose)                    \
  FAMILY(einsum)                            \
  FAMILY(gated_delta_rule)                  \
  FAMILY(group_norm)                        \
  FAMILY(indexing)                          \
  FAMILY(mean_loss)                         \
  FAMILY(parameter)                         \
  FAMILY(pointwise)                         \
  FAMILY(resize)                            \
  FAMILY(selected_attention)                \
  FAMILY(selective_scan)                    \
  FAMILY(state_space_scan)
