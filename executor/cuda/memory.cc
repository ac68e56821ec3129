#include "executor/cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "executor/cuda/errors.h"

namespace pipesim::gpu {
namespace {

constexpr std::size_t kSmallestBlock = std::size_t{1} << 20;
constexpr std::size_t kUploadBlock = std::size_t{2} << 20;
constexpr std::size_t kUploadAlignment = 64;  // of what shares a block

}  // namespace

std::byte* allocate_on(const CudaGpu& gpu, std::size_t bytes) {
  const RelaxedRecording relaxed;
  gpu.use();
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (error != cudaErrorMemoryAllocation) {
    check(error, "cudaMalloc", gpu);
    return static_cast<std::byte*>(memory);
  }
  cudaGetLastError();  // told
  return nullptr;
}

void release_on(const CudaGpu& gpu, std::byte* memory) {
  const RelaxedRecording relaxed;
  // What fails here has failed before, and destructors call this.
  cudaSetDevice(gpu.number);
  cudaFree(memory);
}

MemoryStack::~MemoryStack() {
  cudaSetDevice(gpu_.number);
  for (const Block& block : blocks_)
    place_ == Place::Device ? cudaFree(block.memory) : cudaFreeHost(block.memory);
}

std::byte* MemoryStack::take(std::size_t bytes) {
  const std::size_t size = (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  while (block_ < blocks_.size() && used_ + size > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(make_block(size));
  std::byte* memory = blocks_[block_].memory + used_;
  used_ += size;
  return memory;
}

void MemoryStack::free_all() { block_ = used_ = 0; }

// At least as large as all others together: soon one block is enough for most.
MemoryStack::Block MemoryStack::make_block(std::size_t bytes) {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.size;
  Block made{nullptr, std::max({bytes, total, kSmallestBlock})};
  if (place_ == Place::Host) {
    const RelaxedRecording relaxed;
    gpu_.use();
    check(cudaHostAlloc(reinterpret_cast<void**>(&made.memory), made.size, cudaHostAllocPortable),
          "cudaHostAlloc", gpu_);
    return made;
  }
  made.memory = allocate_on(gpu_, made.size);
  if (made.memory == nullptr && made.size > bytes) {
    made.size = bytes;
    made.memory = allocate_on(gpu_, bytes);
  }
  if (made.memory != nullptr) return made;
  std::size_t free = 0, all = 0;
  const bool told = cudaMemGetInfo(&free, &all) == cudaSuccess;
  throw_error(cudaErrorMemoryAllocation,
              "cudaMalloc of " + std::to_string(bytes) +
                  " bytes for scratch memory, beside the plan's buffers" +
                  (told ? ", with " + std::to_string(free) + " bytes reported free," : ","),
              gpu_);
}

std::byte* WorkMemory::workspace(std::size_t bytes) {
  if (taken_ == nullptr) taken_ = workspace_.take(bytes);
  return taken_;
}

void WorkMemory::finish_gpu() const {
  cudaSetDevice(gpu_.number);
  cudaDeviceSynchronize();
}

UploadRing::~UploadRing() {
  cudaSetDevice(gpu_.number);
  for (const Block& block : blocks_) {
    if (block.memory != nullptr) cudaFreeHost(block.memory);
    if (block.done != nullptr) cudaEventDestroy(block.done);
  }
}

void UploadRing::upload(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (blocks_[block_].memory == nullptr || blocks_[block_].used == kUploadBlock) next_block();
    Block& block = blocks_[block_];
    const std::size_t part = std::min(bytes, kUploadBlock - block.used);
    std::memcpy(block.memory + block.used, source, part);
    check(cudaMemcpyAsync(target, block.memory + block.used, part, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync", gpu_);
    block.used = std::min(kUploadBlock,
                          (block.used + part + kUploadAlignment - 1) / kUploadAlignment * kUploadAlignment);
    target += part;
    source += part;
    bytes -= part;
  }
}

void UploadRing::next_block() {
  const RelaxedRecording relaxed;
  if (Block& full = blocks_[block_]; full.memory != nullptr) {
    check(cudaEventRecord(full.done, stream_), "cudaEventRecord", gpu_);
    block_ = (block_ + 1) % blocks_.size();
  }
  Block& block = blocks_[block_];
  block.used = 0;
  if (block.memory != nullptr) {
    check(cudaEventSynchronize(block.done), "cudaEventSynchronize", gpu_);
    return;
  }
  check(cudaEventCreateWithFlags(&block.done, cudaEventDisableTiming), "cudaEventCreate", gpu_);
  check(cudaHostAlloc(reinterpret_cast<void**>(&block.memory), kUploadBlock, cudaHostAllocDefault),
        "cudaHostAlloc", gpu_);
}

}  // namespace pipesim::gpu
