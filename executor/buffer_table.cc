#include "executor/buffer_table.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

BufferTable::BufferTable(const Program& program, Backend& backend, std::size_t num_devices, Describe describe)
    : program_(program),
      backend_(backend),
      describe_(std::move(describe)),
      slots_(program.buffers.size()),
      accounts_(num_devices) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.life != Buffer::Life::Forever && buffer.life != Buffer::Life::Loaded) continue;
    const BufferId id(b);
    acquire(buffer.device, std::span(&id, 1));
  }
}

BufferTable::~BufferTable() {
  for (std::size_t b = 0; b < slots_.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    if (std::byte* memory = slots_[b].memory) backend_.release(buffer.device, memory, buffer.bytes());
  }
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
    std::byte* memory = backend_.allocate(device, buffer.bytes());
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
    backend_.release(device, slots_[b.index()].memory.exchange(nullptr), buffer.bytes());
    count(account, buffer, -1);
  }
}

void BufferTable::begin_step() {
  for (std::size_t b = 0; b < slots_.size(); ++b) slots_[b].uses_left = program_.buffers[b].num_uses;
}

MeasuredMemory BufferTable::measured(DeviceId device) const { return accounts_[device.index()].measured; }

}  // namespace pipesim
