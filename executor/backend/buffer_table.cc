#include "executor/backend/buffer_table.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

BufferTable::BufferTable(const Program& program, Allocator& allocator, std::size_t num_devices,
                         Describe describe, const Refused& refused)
    : program_(program),
      allocator_(allocator),
      describe_(std::move(describe)),
      slots_(program.buffers.size()),
      accounts_(num_devices),
      arenas_(num_devices, nullptr) {
  for (const DeviceProgram& d : program.devices) {
    if (!program.arenas) break;
    const Bytes size = program.arenas->size[d.device.index()];
    accounts_[d.device.index()].measured.arena = size;
    arenas_[d.device.index()] = allocator.allocate(d.device, size);
    if (!arenas_[d.device.index()])
      throw DeviceError(fmt::format("out of memory: device {} asked for {}, for all its buffers{}",
                                    d.device.value, pretty(size), refused ? refused(d.device) : ""));
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.life != Buffer::Life::Forever && buffer.life != Buffer::Life::Loaded) continue;
    const BufferId id(b);
    acquire(buffer.device, std::span(&id, 1));
  }
}

BufferTable::~BufferTable() {
  for (std::size_t d = 0; d < arenas_.size(); ++d) {
    if (arenas_[d]) allocator_.release(DeviceId(d), arenas_[d], program_.arenas->size[d]);
  }
  if (program_.arenas) return;
  for (std::size_t b = 0; b < slots_.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    if (std::byte* memory = slots_[b].memory) allocator_.release(buffer.device, memory, buffer.bytes());
  }
}

std::byte* BufferTable::memory_for(BufferId b) {
  const Buffer& buffer = program_.buffers[b.index()];
  if (program_.arenas) return arenas_[buffer.device.index()] + program_.arenas->offset[b.index()];
  return allocator_.allocate(buffer.device, buffer.bytes());
}

void BufferTable::count(Account& account, const Buffer& buffer, std::int64_t sign) const {
  const Bytes size(sign * buffer.bytes().value);
  MeasuredMemory& measured = account.measured;
  if (buffer.life == Buffer::Life::Workspace || buffer.life == Buffer::Life::Loaded) {
    account.workspace += size;
    measured.workspace_peak = std::max(measured.workspace_peak, account.workspace);
    return;
  }
  account.now[static_cast<std::size_t>(buffer.category)] += size;
  account.sum += size;
  if (account.sum <= measured.peak) return;
  measured.peak = account.sum;
  measured.at_peak = account.now;
}

void BufferTable::acquire(DeviceId device, std::span<const BufferId> buffers) {
  Account& account = accounts_[device.index()];
  for (const BufferId b : buffers) {
    if (slots_[b.index()].memory) continue;
    const std::lock_guard lock(account.mutex);
    if (slots_[b.index()].memory) continue;
    const Buffer& buffer = program_.buffers[b.index()];
    std::byte* memory = memory_for(b);
    if (!memory)
      throw DeviceError(
          fmt::format("out of memory: {} asked for {}", pretty(buffer.bytes()), describe_(buffer)));
    slots_[b.index()].memory = memory;
    count(account, buffer, 1);
  }
}

void BufferTable::release(DeviceId device, std::span<const BufferId> buffers) {
  Account& account = accounts_[device.index()];
  for (const BufferId b : buffers) {
    const Buffer& buffer = program_.buffers[b.index()];
    if (--slots_[b.index()].uses_left > 0) continue;
    if (buffer.life == Buffer::Life::Forever || buffer.life == Buffer::Life::Loaded) continue;
    const std::lock_guard lock(account.mutex);
    std::byte* memory = slots_[b.index()].memory.exchange(nullptr);
    if (!program_.arenas) allocator_.release(device, memory, buffer.bytes());
    count(account, buffer, -1);
  }
}

void BufferTable::begin_step() {
  for (std::size_t b = 0; b < slots_.size(); ++b) slots_[b].uses_left = program_.buffers[b].num_uses;
}

MeasuredMemory BufferTable::measured(DeviceId device) const { return accounts_[device.index()].measured; }

}  // namespace pipesim
