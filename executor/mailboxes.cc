#include "executor/mailboxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Up to here waking a thread costs more than copying.
constexpr std::size_t kShortMessage = 32 * 1024;

constexpr std::chrono::microseconds kSpin{20};

void copy_message(std::byte* target, const std::byte* source, std::size_t size) {
  if (size > 0) std::memcpy(target, source, size);
}

}  // namespace

std::size_t Mailboxes::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = static_cast<std::uint64_t>(key.label.tag);
  for (const int part : {key.label.channel, key.label.phase, key.from}) {
    hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(part);
  }
  return hash ^ (hash >> 32);
}

Mailboxes::Mailboxes(int endpoints) : boxes_(static_cast<std::size_t>(endpoints)) {}

int Mailboxes::channel(std::span<const int> members) {
  const std::scoped_lock lock(mutex_);
  const auto next = static_cast<int>(channels_.size());
  return channels_.try_emplace({members.begin(), members.end()}, next).first->second;
}

void Mailboxes::abort(const std::string& reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (aborted_) return;
    reason_ = reason;
    aborted_ = true;
  }
  for (Box& box : boxes_) {
    const std::scoped_lock lock(box.mutex);
    for (Exchange* exchange : box.under_way) exchange->tell();
  }
}

void Mailboxes::throw_if_aborted() const {
  if (!aborted_) return;
  const std::scoped_lock lock(mutex_);
  throw DeviceError(reason_);
}

void Mailboxes::fail_on_sizes(int to, const Key& key, const Post& mine, const Post& other) {
  const auto [sent, awaited] =
      mine.source != nullptr ? std::pair(mine.size, other.size) : std::pair(other.size, mine.size);
  const std::string what = fmt::format("device {} sent {} bytes with tag {} to device {}, which waits for {}",
                                       key.from, sent, key.label.tag, to, awaited);
  abort(what);
  throw InternalError(what);
}

void Mailboxes::post(int to, const Key& key, const Post& mine) {
  Box& box = this->box(to);
  std::unique_lock lock(box.mutex);
  std::deque<Post>& posts = box.posts[key];
  if (posts.empty() || (posts.front().source != nullptr) == (mine.source != nullptr)) {
    posts.push_back(mine);
    return;
  }
  // From here on the other waits until it is told, even if the world is aborted.
  const Post other = posts.front();
  if (other.size != mine.size) {
    lock.unlock();
    fail_on_sizes(to, key, mine, other);
  }
  posts.pop_front();
  if (posts.empty()) box.posts.erase(key);
  if (mine.source != nullptr && mine.size > kShortMessage) {
    other.owner->handed_.push_back({mine, other.target});
    other.owner->tell();
    return;
  }
  lock.unlock();
  const Post& from = mine.source != nullptr ? mine : other;
  copy_message(mine.source != nullptr ? other.target : mine.target, from.source, from.size);
  complete(*other.owner);
  complete(*mine.owner);
}

void Mailboxes::complete(Exchange& exchange) {
  const std::scoped_lock lock(exchange.box_.mutex);
  // Told under the lock: the exchange is gone as soon as its thread sees zero.
  if (--exchange.left_ == 0) exchange.tell();
}

int Mailboxes::withdraw(int to, const Key& key, const Exchange& owner) {
  Box& box = this->box(to);
  const std::scoped_lock lock(box.mutex);
  const auto found = box.posts.find(key);
  if (found == box.posts.end()) return 0;
  const auto gone = std::erase_if(found->second, [&](const Post& post) { return post.owner == &owner; });
  if (found->second.empty()) box.posts.erase(found);
  return static_cast<int>(gone);
}

Mailboxes::Exchange::Exchange(Mailboxes& world, int endpoint, const MessageLabel& label,
                              std::span<const Outgoing> out, std::span<const Incoming> in)
    : world_(world),
      box_(world.box(endpoint)),
      endpoint_(endpoint),
      out_(out),
      in_(in),
      label_(label),
      left_(static_cast<int>(out.size() + in.size())) {
  const std::scoped_lock lock(box_.mutex);
  box_.under_way.push_back(this);
}

// Delegates, so that the destructor withdraws what was posted before an error.
Mailboxes::Exchange::Exchange(Mailboxes& world, int endpoint, std::span<const Outgoing> out,
                              std::span<const Incoming> in, const MessageLabel& label)
    : Exchange(world, endpoint, label, out, in) {
  world_.throw_if_aborted();
  for (const Outgoing& message : out) {
    static constexpr std::byte kNothing{};  // an empty span may have a null address
    const std::byte* source = message.bytes.empty() ? &kNothing : message.bytes.data();
    world_.post(message.to, {label, endpoint}, {this, source, nullptr, message.bytes.size()});
    ++posted_;
  }
  for (const Incoming& message : in) {
    world_.post(endpoint, {label, message.from}, {this, nullptr, message.bytes.data(), message.bytes.size()});
    ++posted_;
  }
}

Mailboxes::Exchange::~Exchange() {
  std::unique_lock lock(box_.mutex);
  if (left_ > 0) {
    lock.unlock();
    const int gone = withdraw();
    lock.lock();
    left_ -= gone + static_cast<int>(out_.size() + in_.size()) - posted_;
    // What is being copied at this moment still needs our memory.
    for (copy_handed(lock); left_ > 0; copy_handed(lock)) changed_.wait(lock);
  }
  std::erase(box_.under_way, this);
}

void Mailboxes::Exchange::wait() {
  std::unique_lock lock(box_.mutex);
  if (advance(lock)) return;
  lock.unlock();
  spin();
  lock.lock();
  while (!advance(lock)) changed_.wait(lock);
}

void Mailboxes::Exchange::tell() {
  news_ = true;
  changed_.notify_all();
}

// A thread that sleeps takes tens of microseconds to wake. At most half of the cores are kept awake, so that
// others can work, and yield to those who could.
void Mailboxes::Exchange::spin() {
  static const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2);
  if (world_.spinning_++ < most) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!news_ && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
  --world_.spinning_;
}

bool Mailboxes::Exchange::wait_for(std::chrono::microseconds duration) {
  std::unique_lock lock(box_.mutex);
  if (advance(lock)) return true;
  changed_.wait_for(lock, duration);
  return advance(lock);
}

bool Mailboxes::Exchange::advance(std::unique_lock<std::mutex>& lock) {
  copy_handed(lock);
  if (left_ == 0) return true;
  world_.throw_if_aborted();
  return false;
}

void Mailboxes::Exchange::copy_handed(std::unique_lock<std::mutex>& lock) {
  while (!handed_.empty()) {
    const Handed next = handed_.back();
    handed_.pop_back();
    lock.unlock();
    copy_message(next.target, next.source.source, next.source.size);
    world_.complete(*next.source.owner);
    lock.lock();
    --left_;
  }
}

int Mailboxes::Exchange::withdraw() {
  int gone = 0;
  for (const Outgoing& message : out_) gone += world_.withdraw(message.to, {label_, endpoint_}, *this);
  for (const Incoming& message : in_) gone += world_.withdraw(endpoint_, {label_, message.from}, *this);
  return gone;
}

}  // namespace pipesim
