#include "executor/ranks/mpi_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kShort = 2048;         // bytes that travel with their label
constexpr std::size_t kControl = 16 * 1024;  // the longest control message
constexpr std::size_t kPiece = 256 << 20;    // MPI counts in int
constexpr int kLargestTag = 32767;           // what the standard promises

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class Byte>
std::vector<std::span<Byte>> pieces_of(std::span<Byte> bytes) {
  std::vector<std::span<Byte>> pieces;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece)
    pieces.push_back(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)));
  return pieces;
}

template <class T>
T take_first(std::deque<T>& queue) {
  T first = std::move(queue.front());
  queue.pop_front();
  return first;
}

}  // namespace

MpiMessages::MpiMessages(const MpiFunctions& mpi, std::vector<int> rank_of, Mailboxes& local)
    : mpi_(mpi), rank_of_(std::move(rank_of)), local_(local), control_(kControl) {
  await_control();
}

int MpiMessages::channel(std::span<const int> members) {
  const int number = local_.channel(members);
  const std::scoped_lock lock(mutex_);
  members_of_.try_emplace(number, members.begin(), members.end());
  return number;
}

MpiMessages::Label MpiMessages::label_of(const MessageLabel& label, int from, int to) const {
  Label bytes;
  append(bytes, label.tag);
  for (const int part : {label.phase, from, to}) append(bytes, part);
  for (const int member : members_of_.at(label.channel)) append(bytes, member);
  return bytes;
}

void MpiMessages::post(Exchange& exchange, int endpoint, std::span<const Outgoing> out,
                       std::span<const Incoming> in, const MessageLabel& label) {
  const std::scoped_lock lock(mutex_);
  local_.throw_if_aborted();
  const auto rank_of = [&](int peer) { return rank_of_[static_cast<std::size_t>(peer)]; };
  for (const Incoming& message : in)
    post_receive(label_of(label, message.from, endpoint), rank_of(message.from), {&exchange, message.bytes});
  for (const Outgoing& message : out)
    post_send(label_of(label, endpoint, message.to), {&exchange, rank_of(message.to), message.bytes});
}

void MpiMessages::post_send(const Label& label, const Send& send) {
  if (send.bytes.size() <= kShort) {
    const auto size = static_cast<std::int64_t>(send.bytes.size());
    return send_control(*send.owner, send.rank, {Kind::Short, -1, size, 0}, label, send.bytes);
  }
  ++send.owner->left_;
  Meeting& meeting = meetings_[label];
  if (meeting.readies.empty()) {
    meeting.sends.push_back(send);
    return;
  }
  const Ready ready = take_first(meeting.readies);
  if (meeting.empty()) meetings_.erase(label);
  start_send(send, ready);
}

void MpiMessages::post_receive(const Label& label, int from_rank, const Receive& receive) {
  if (receive.bytes.size() > kShort) {
    const int slot = take_slot();
    const auto pieces = pieces_of(receive.bytes);
    for (const auto piece : pieces) {
      int request = -1;
      check(mpi_.receive(MpiFunctions::Data, piece.data(), static_cast<int>(piece.size()), from_rank, slot,
                         &request));
      ++receive.owner->left_;
      // Messages of one tag arrive in order: with the last one the number is free.
      requests_[request] = {receive.owner, {}, piece.data() == pieces.back().data() ? slot : -1};
    }
    const auto size = static_cast<std::int64_t>(receive.bytes.size());
    return send_control(*receive.owner, from_rank, {Kind::Ready, slot, size, 0}, label, {});
  }
  ++receive.owner->left_;
  Meeting& meeting = meetings_[label];
  if (meeting.arrived.empty()) {
    meeting.receives.push_back(receive);
    return;
  }
  const std::vector<std::byte> payload = take_first(meeting.arrived);
  if (meeting.empty()) meetings_.erase(label);
  deliver(receive, payload);
}

void MpiMessages::send_control(Exchange& owner, int rank, Header header, const Label& label,
                               std::span<const std::byte> payload) {
  header.label_bytes = static_cast<std::int64_t>(label.size());
  std::vector<std::byte> message(sizeof(Header) + label.size() + payload.size());
  if (message.size() > kControl) {
    throw InternalError(
        fmt::format("a label of {} bytes, because of a group of too many devices", label.size()));
  }
  std::memcpy(message.data(), &header, sizeof(Header));
  std::memcpy(message.data() + sizeof(Header), label.data(), label.size());
  if (!payload.empty())
    std::memcpy(message.data() + sizeof(Header) + label.size(), payload.data(), payload.size());
  int request = -1;
  check(
      mpi_.send(MpiFunctions::Control, message.data(), static_cast<int>(message.size()), rank, 0, &request));
  ++owner.left_;
  requests_[request] = {&owner, std::move(message), -1};
}

void MpiMessages::start_send(const Send& send, const Ready& ready) {
  if (ready.bytes != static_cast<std::int64_t>(send.bytes.size()))
    fail_on_sizes(static_cast<std::int64_t>(send.bytes.size()), ready.bytes);
  for (const auto piece : pieces_of(send.bytes)) {
    int request = -1;
    check(mpi_.send(MpiFunctions::Data, piece.data(), static_cast<int>(piece.size()), ready.rank, ready.slot,
                    &request));
    ++send.owner->left_;
    requests_[request] = {send.owner, {}, -1};
  }
  --send.owner->left_;  // no longer waiting to start
}

void MpiMessages::take_control(int from, std::span<const std::byte> message) {
  Header header{};
  std::memcpy(&header, message.data(), sizeof(Header));
  const auto label_bytes = static_cast<std::size_t>(header.label_bytes);
  const Label label(reinterpret_cast<const char*>(message.data()) + sizeof(Header), label_bytes);
  if (header.kind == Kind::Short) return take_short(label, message.subspan(sizeof(Header) + label_bytes));
  Meeting& meeting = meetings_[label];
  const Ready ready{from, header.slot, header.bytes};
  if (meeting.sends.empty()) {
    meeting.readies.push_back(ready);
    return;
  }
  const Send send = take_first(meeting.sends);
  if (meeting.empty()) meetings_.erase(label);
  start_send(send, ready);
}

void MpiMessages::take_short(const Label& label, std::span<const std::byte> payload) {
  Meeting& meeting = meetings_[label];
  if (meeting.receives.empty()) {
    meeting.arrived.emplace_back(payload.begin(), payload.end());
    return;
  }
  const Receive receive = take_first(meeting.receives);
  if (meeting.empty()) meetings_.erase(label);
  deliver(receive, payload);
}

void MpiMessages::deliver(const Receive& receive, std::span<const std::byte> payload) {
  if (receive.bytes.size() != payload.size()) {
    fail_on_sizes(static_cast<std::int64_t>(payload.size()), static_cast<std::int64_t>(receive.bytes.size()));
  }
  if (!payload.empty()) std::memcpy(receive.bytes.data(), payload.data(), payload.size());
  --receive.owner->left_;
}

bool MpiMessages::advance(const Exchange& exchange) {
  const std::scoped_lock lock(mutex_);
  // Messages of exchanges that have thrown must not be touched any more.
  local_.throw_if_aborted();
  if (exchange.left_ == 0) return true;
  poll();
  // Ranks that know of an abort may have given away what they were sending.
  local_.throw_if_aborted();
  return exchange.left_ == 0;
}

void MpiMessages::poll() {
  std::array<MpiFunctions::Completion, 64> done;
  int count = 0;
  check(mpi_.poll(done.data(), static_cast<int>(done.size()), &count));
  for (int i = 0; i < count; ++i) {
    const auto& [name, from, bytes] = done[static_cast<std::size_t>(i)];
    if (name == control_request_) {
      const std::vector<std::byte> message(control_.begin(), control_.begin() + bytes);
      await_control();
      take_control(from, message);
      continue;
    }
    const auto request = requests_.find(name);
    --request->second.owner->left_;
    if (request->second.slot >= 0) free_slots_.push_back(request->second.slot);
    requests_.erase(request);
  }
}

void MpiMessages::await_control() {
  check(mpi_.receive(MpiFunctions::Control, control_.data(), static_cast<int>(control_.size()), -1, 0,
                     &control_request_));
}

int MpiMessages::take_slot() {
  if (free_slots_.empty()) {
    if (slots_ > kLargestTag) throw InternalError("more long messages under way than MPI has tags");
    return slots_++;
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void MpiMessages::check(const char* error) {
  if (error != nullptr) throw DeviceError(fmt::format("MPI: {}", error));
}

void MpiMessages::fail_on_sizes(std::int64_t sent, std::int64_t awaited) {
  throw InternalError(
      fmt::format("a message of {} bytes was sent to a device that waits for {}", sent, awaited));
}

}  // namespace pipesim
