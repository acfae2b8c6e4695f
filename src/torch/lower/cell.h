// Tensors that can be written to. ONNX values never change, PyTorch's do: an in-place operator on a view changes what
// the view looks at, and through it every other view.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "torch/lower/operand.h"
#include "torch/program.h"

namespace ferry::torch {

class Cell;

// Tensors that something may share its elements with, where nobody can say: once one is written to, it is not read.
class Sharing {
 public:
  void Add(const std::shared_ptr<Cell>& tensor);
  bool IsDoubtful() const;  // one of them was written to since
  void WillWrite();         // to the elements that may be shared
  const std::vector<std::pair<std::shared_ptr<Cell>, uint64_t>>& tensors() const { return tensors_; }

 private:
  std::vector<std::pair<std::shared_ptr<Cell>, uint64_t>> tensors_;  // and how often each was written to
};

class Cell {
 public:
  // Makes the view from the base's value.
  using MakeView = std::function<Operand(const Operand& base)>;
  // Gives the base's new value when the view is written to.
  using WriteBack = std::function<Operand(const Operand& base, const Operand& written)>;

  explicit Cell(Operand value) : value_(std::move(value)) {}
  // Without `write_back` it is not certain that this is a view and not a copy (reshape): once one of the two is written
  // to, the other must not be read any more.
  Cell(Operand value, std::shared_ptr<Cell> base, MakeView view, WriteBack write_back)
      : value_(std::move(value)), base_(std::move(base)), view_(std::move(view)), write_back_(std::move(write_back)) {
    seen_ = base_->generation();
  }

  // The tensor as it is now: a view of a base that was written to is made again.
  Operand Read() {
    if (IsDoubtful()) RefuseDoubt();
    if (base_ && seen_ != base_->generation()) {
      if (!write_back_) RefuseDoubt();
      value_ = view_(base_->Read());
      seen_ = base_->generation();
    }
    return value_;
  }

  // Makes a view of a written base again now, so that a body that reads it later need not.
  void Refresh() {
    if (write_back_ && !IsDoubtful()) Read();
  }

  void Write(Operand value) {
    if (base_ && !write_back_) {
      writes_ = base_->generation();
      ++base_->Root().doubts_;
      base_.reset();
    }
    if (base_) {
      base_->Write(write_back_(base_->Read(), value));
      seen_ = base_->generation();
    } else {
      others_.WillWrite();
      ++writes_;
    }
    value_ = std::move(value);
  }

  // What it was before somebody wrote to what may be the same.
  const Operand& Peek() const { return value_; }
  bool IsDoubtful() {
    Cell& root = Root();
    return root.doubts_ > 0 || root.others_.IsDoubtful();
  }
  void MayShare(const std::shared_ptr<Cell>& other) {
    if (other.get() != &Root()) Root().others_.Add(other);
  }

  // The tensor that this one looks at in the end, itself when it is no view.
  Cell& Root() { return base_ ? base_->Root() : *this; }
  static std::shared_ptr<Cell> RootOf(std::shared_ptr<Cell> cell) {
    while (cell->base_) cell = cell->base_;
    return cell;
  }
  // Every tensor that this one looks at, or may look at.
  static void CollectRoots(const std::shared_ptr<Cell>& cell, std::vector<std::shared_ptr<Cell>>& roots) {
    std::shared_ptr<Cell> root = RootOf(cell);
    if (std::find(roots.begin(), roots.end(), root) != roots.end()) return;
    roots.push_back(root);
    for (const auto& [other, writes] : root->others_.tensors()) CollectRoots(other, roots);
  }
  [[noreturn]] static void RefuseDoubt() {
    Fail(ErrorCode::kUnsupported,
         "a tensor is read after another was written to that may share its elements; call clone() first");
  }

  int level = 0;  // the body it was made in, counted from the outermost graph
  // What the program says of it; null when it is silent.
  const TensorMeta* meta = nullptr;

 private:
  friend class Sharing;
  // How often the tensor that all of this looks at in the end was written to; and with writes that may have been to it.
  uint64_t history() { return Root().writes_ + Root().doubts_; }
  uint64_t generation() const { return base_ ? base_->generation() : writes_; }

  Operand value_;
  std::shared_ptr<Cell> base_;
  MakeView view_;
  WriteBack write_back_;
  uint64_t seen_ = 0;
  uint64_t writes_ = 0;
  uint64_t doubts_ = 0;  // how often something that may be a view of this was written to
  Sharing others_;
};

inline void Sharing::Add(const std::shared_ptr<Cell>& tensor) { tensors_.emplace_back(tensor, tensor->history()); }
inline bool Sharing::IsDoubtful() const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [](const auto& tensor) { return tensor.first->history() != tensor.second; });
}
inline void Sharing::WillWrite() {
  for (const auto& [tensor, writes] : tensors_) ++tensor->Root().doubts_;
  tensors_.clear();
}

}  // namespace ferry::torch
