#pragma once

// Code for devices is compiled twice: by nvcc for GPUs, and for the host, where its tests need no GPU.
// constexpr functions may be called from it as they are.
#ifdef __CUDACC__
#define PIPESIM_DEVICE __host__ __device__
#else
#define PIPESIM_DEVICE
#endif
