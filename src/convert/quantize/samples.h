// Samples out of .npz files, a few rows at a time; what one file maps is let go before the next is opened.
#pragma once

#include <string>
#include <vector>

#include "engine/session.h"
#include "tensor/npz.h"

namespace ferry::quantize {

class Samples {
 public:
  // Arrays whose first axis is a batch, which the model leaves open or has smaller, are cut into runs of `batch` rows.
  Samples(const std::vector<std::string>& paths, const Session& session, int64_t batch);

  size_t size() const { return places_.size(); }
  int64_t rows(size_t sample) const { return places_[sample].count; }
  int64_t all_rows() const;  // a whole file is one
  // Every fourth row or so lies in samples that are for the proof.
  bool is_proof(size_t sample) const { return places_[sample].is_proof; }
  std::string name(size_t sample) const;
  std::vector<NamedValue> Inputs(size_t sample) const;  // throws for NaN and infinity, naming sample and input
  // Of the first sample, as few rows as the model takes.
  std::vector<NamedValue> OneRow() const;
  // One for each row; empty where the data has none.
  std::vector<int64_t> Labels(size_t sample) const;
  bool has_labels() const { return has_labels_; }
  // What is wrong with them.
  std::string labels_said() const { return has_labels_ ? wrong_labels_ : "there is no array 'labels'"; }

 private:
  struct Place {
    size_t file;
    int64_t begin, count;  // rows; count 0: the whole file
    bool is_proof = false;
  };
  const NamedTensors& Open(size_t file) const;
  void AddFile(size_t file, int64_t batch);
  void LookAtLabels(size_t file, int64_t rows);
  void AddRows(size_t file, int64_t begin, int64_t end, int64_t batch, bool is_proof);

  const std::vector<ValueInfo> inputs_;  // of the model
  std::vector<std::string> files_;
  std::vector<Place> places_;
  std::vector<NamedValue> At(size_t sample, const Place& place) const;

  bool has_labels_ = false, is_fixed_ = false;
  std::string wrong_labels_;
  int64_t met_ = 0;  // rows, or batches of a fixed size
  mutable size_t opened_ = SIZE_MAX;
  mutable NamedTensors arrays_;
};

}  // namespace ferry::quantize
