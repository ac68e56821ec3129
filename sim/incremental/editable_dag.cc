#include "sim/incremental/editable_dag.h"

#include <algorithm>
#include <utility>

#include "sim/base/allocated_bytes.h"

namespace pipesim {

void EditableDag::clear() {
  tasks_.clear();
  keys_.clear();
  marks_.clear();
  removed_in_.clear();
  rows_.clear();
  num_tasks_ = 0;
  begin_next();
}

void EditableDag::begin_next() {
  if (++edit_ == 0) {
    std::ranges::fill(marks_, Mark{});  // after 2^32 edits
    std::ranges::fill(removed_in_, 0);
    edit_ = 1;
  }
  first_added_ = tasks_.size();
  marks_.resize(first_added_);
  removed_in_.resize(first_added_, 0);
  first_row_ = rows_.size();
  removed_.clear();
  added_first_.clear();
  new_edges_.clear();
  removed_edges_.clear();
  changed_successors_.clear();
  changed_predecessors_.clear();
  successors_before_.clear();
  predecessors_before_.clear();
}

void EditableDag::remove_tasks(TaskId first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const TaskId task(first.index() + i);
    removed_in_[task.index()] = edit_;
    __builtin_prefetch(rows_.data() + tasks_[task.index()].successors.first);
    __builtin_prefetch(rows_.data() + tasks_[task.index()].predecessors.first);
    removed_.push_back(task);
  }
}

EditableDag::Mark& EditableDag::mark(TaskId task) {
  Mark& m = marks_[task.index()];
  if (m.edit != edit_) m = {edit_};
  return m;
}

EditableDag::Mark& EditableDag::mark_successors(TaskId task) {
  Mark& m = mark(task);
  if (m.other_successors) return m;
  changed_successors_.push_back(task);
  m.other_successors = true;
  __builtin_prefetch(&tasks_[task.index()]);
  return m;
}

EditableDag::Mark& EditableDag::mark_predecessors(TaskId task) {
  Mark& m = mark(task);
  if (m.other_predecessors) return m;
  changed_predecessors_.push_back(task);
  m.other_predecessors = true;
  __builtin_prefetch(&tasks_[task.index()]);
  return m;
}

void EditableDag::mark_rows() {
  for (const TaskId r : removed_) {
    for (const TaskId before : predecessors(r)) {
      if (!is_removed(before)) mark_successors(before);
    }
    for (const TaskId after : successors(r)) {
      if (!is_removed(after)) mark_predecessors(after);
    }
  }
  for (const auto [before, after] : removed_edges_) {
    mark_successors(before);
    mark_predecessors(after);
  }
}

// Counts the new edges of tasks. Added tasks count them in their rows, which are not placed yet.
void EditableDag::count_new_edges() {
  for (const auto [before, after] : new_edges_) {
    ++(is_added(before) ? tasks_[before.index()].successors.count : mark_successors(before).new_successors);
    if (is_added(after)) {
      ++tasks_[after.index()].predecessors.count;
      tasks_[after.index()].after_added |= is_added(before);
    } else {
      ++mark_predecessors(after).new_predecessors;
    }
  }
}

// Gives added tasks empty rows with room for what was counted.
void EditableDag::place_added_rows() {
  std::size_t end = rows_.size();
  const auto place = [&end](Row& row) {
    row.first = static_cast<std::uint32_t>(end);
    end += std::exchange(row.count, 0);
  };
  for (std::size_t t = first_added_; t < tasks_.size(); ++t) {
    place(tasks_[t].successors);
    place(tasks_[t].predecessors);
    if (!tasks_[t].after_added) added_first_.emplace_back(t);
  }
  rows_.resize(end);
}

/// A copy without removed tasks at the end of all rows, with room for so many more.
EditableDag::Row EditableDag::moved_row(Row old, std::uint32_t more) {
  const auto first = static_cast<std::uint32_t>(rows_.size());
  rows_.resize(rows_.size() + old.count + more);
  std::uint32_t end = first;
  for (std::uint32_t i = old.first; i < old.first + old.count; ++i) {
    if (!is_removed(rows_[i])) rows_[end++] = rows_[i];
  }
  return {first, end - first};
}

void EditableDag::erase(Row& row, TaskId task) {
  const auto begin = rows_.begin() + row.first, end = begin + row.count;
  const auto it = std::find(begin, end, task);
  if (it == end) return;  // it went with a removed task
  *it = *(end - 1);
  --row.count;
}

void EditableDag::move_rows() {
  for (const TaskId t : changed_successors_) {
    Row& row = tasks_[t.index()].successors;
    successors_before_.push_back({t, row});
    row = moved_row(row, marks_[t.index()].new_successors);
  }
  for (const TaskId t : changed_predecessors_) {
    Row& row = tasks_[t.index()].predecessors;
    predecessors_before_.push_back({t, row});
    row = moved_row(row, marks_[t.index()].new_predecessors);
  }
}

void EditableDag::finish() {
  mark_rows();
  count_new_edges();
  move_rows();
  place_added_rows();
  for (const auto [before, after] : removed_edges_) {
    erase(tasks_[before.index()].successors, after);
    erase(tasks_[after.index()].predecessors, before);
  }
  for (const auto [before, after] : new_edges_) {
    Row& next = tasks_[before.index()].successors;
    rows_[next.first + next.count++] = after;
    Row& previous = tasks_[after.index()].predecessors;
    rows_[previous.first + previous.count++] = before;
  }
}

void EditableDag::keep() {
  for (const TaskId r : removed_) tasks_[r.index()].exists = false;
  num_tasks_ += tasks_.size() - first_added_;
  num_tasks_ -= removed_.size();
  begin_next();
}

void EditableDag::undo() {
  for (const RowBefore& b : successors_before_) tasks_[b.task.index()].successors = b.row;
  for (const RowBefore& b : predecessors_before_) tasks_[b.task.index()].predecessors = b.row;
  tasks_.resize(first_added_);
  keys_.resize(first_added_);
  rows_.resize(first_row_);
  begin_next();
}

std::size_t EditableDag::bytes() const { return allocated_bytes(tasks_, keys_, marks_, removed_in_, rows_); }

}  // namespace pipesim
