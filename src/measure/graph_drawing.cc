#include "measure/graph_drawing.h"

#include <algorithm>
#include <unordered_map>

namespace ferry {
namespace {

constexpr size_t kMostTracks = 24;  // what is beyond them is drawn no more, so that lines stay readable

// Each value that is still to be read runs down a track of its own.
class Drawing {
 public:
  explicit Drawing(const ModelSummary& summary) {
    for (const LayerInfo& layer : summary.layers)
      for (const std::string& name : layer.inputs) ++readers_[name];
    for (const ValueInfo& output : summary.outputs) ++readers_[output.name];
    for (const ValueInfo& input : summary.inputs) Source("input", input);
    for (const LayerInfo& layer : summary.layers) Add(layer);
    for (const ValueInfo& output : summary.outputs) Sink(output);
  }

  std::string Finish() { return std::move(text_); }

 private:
  size_t TrackOf(const std::string& value) const {
    return static_cast<size_t>(std::find(tracks_.begin(), tracks_.end(), value) - tracks_.begin());
  }

  size_t FreeTrack() {
    size_t track = TrackOf("");
    if (track == tracks_.size()) tracks_.emplace_back();
    return track;
  }

  // A node at `own`, joined to tracks that lead to it or begin at it.
  void Line(size_t own, const std::vector<size_t>& joined, std::string_view symbol, const std::string& label) {
    size_t first = own, last = own;
    for (size_t track : joined) first = std::min(first, track), last = std::max(last, track);
    std::string line;
    for (size_t track = 0; track < std::min(std::max(tracks_.size(), last + 1), kMostTracks); ++track) {
      bool is_joined = std::find(joined.begin(), joined.end(), track) != joined.end();
      bool goes_on = track < tracks_.size() && !tracks_[track].empty();
      bool inside = track > first && track < last;
      if (track == own)
        line += symbol;
      else if (is_joined)
        line += JointOf(track, first, last, goes_on);
      else
        line += goes_on ? (inside ? "┼" : "│") : (inside ? "─" : " ");
      line += track >= first && track < last ? "─" : " ";
    }
    text_ += Cat(line, " ", label, "\n");
  }

  std::string_view JointOf(size_t track, size_t first, size_t last, bool goes_on) const {
    bool begins = std::find(begun_.begin(), begun_.end(), track) != begun_.end();
    if (track == first) return begins ? "╭" : goes_on ? "├" : "╰";
    if (track == last) return begins ? "╮" : goes_on ? "┤" : "╯";
    return begins ? "┬" : goes_on ? "┼" : "┴";
  }

  void Source(std::string_view what, const ValueInfo& value) {
    if (readers_[value.name] == 0) return;
    size_t track = FreeTrack();
    tracks_[track] = value.name;
    Line(track, {}, "○", Cat(what, " ", Printable(value.name, 60), "  ", value.type));
  }

  // Frees the tracks of values that nobody reads after this; returns the tracks that lead to the node.
  std::vector<size_t> Read(const std::vector<std::string>& inputs) {
    std::vector<size_t> tracks;
    for (const std::string& name : inputs) {
      size_t track = TrackOf(name);
      if (track == tracks_.size()) continue;
      if (std::find(tracks.begin(), tracks.end(), track) == tracks.end()) tracks.push_back(track);
      if (--readers_[name] <= 0) tracks_[track].clear();
    }
    std::sort(tracks.begin(), tracks.end());
    return tracks;
  }

  static std::string LabelOf(const LayerInfo& layer) {
    std::string label = layer.op;
    for (const ValueInfo& output : layer.outputs) label += Cat("  ", Printable(output.name, 60), " ", output.type);
    return label;
  }

  void Add(const LayerInfo& layer) {
    std::vector<size_t> tracks = Read(layer.inputs);
    auto free = std::find_if(tracks.begin(), tracks.end(), [&](size_t track) { return tracks_[track].empty(); });
    size_t own = free != tracks.end() ? *free : FreeTrack();
    std::vector<size_t> joined;
    for (size_t track : tracks)
      if (track != own) joined.push_back(track);
    begun_.clear();
    bool first = true;
    for (const ValueInfo& output : layer.outputs) {
      if (readers_[output.name] == 0) continue;
      size_t track = first ? own : FreeTrack();
      tracks_[track] = output.name;
      if (!first) begun_.push_back(track);
      first = false;
    }
    joined.insert(joined.end(), begun_.begin(), begun_.end());
    Line(own, joined, "●", LabelOf(layer));
  }

  void Sink(const ValueInfo& output) {
    std::vector<size_t> tracks = Read({output.name});
    if (!tracks.empty()) Line(tracks[0], {}, "◆", Cat("output ", Printable(output.name, 60), "  ", output.type));
  }

  std::unordered_map<std::string, int64_t> readers_;
  std::vector<std::string> tracks_;  // the value on each; empty for a free track
  std::vector<size_t> begun_;        // tracks that begin at the node being drawn, beside its own
  std::string text_;
};

}  // namespace

std::string DrawGraph(const ModelSummary& summary) { return Drawing(summary).Finish(); }

}  // namespace ferry
