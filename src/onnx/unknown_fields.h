// Protobuf fields that this version does not know, inside the small messages that the model has no place for: entries
// of key and value, and segments. Such a message is kept whole among the unknown fields of the message it is in, and
// written in the place of what was read of it, as long as that still stands in the model.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "graph/model.h"
#include "onnx/proto.h"

namespace ferry::onnx {

void KeepWhole(UnknownFields& kept, Tag tag, std::string_view message);
// By field number, those of one number as they were: the order in which they come back after being written.
void SortFields(UnknownFields& kept);
// The messages kept under a field number.
std::vector<std::string_view> KeptMessages(const UnknownFields& kept, Tag tag);
// Everything but the messages kept under these numbers.
UnknownFields WithoutKept(const UnknownFields& kept, std::initializer_list<Tag> tags);

std::pair<std::string, std::string> EntryOf(std::string_view message);
StoredTensor::Segment SegmentOf(std::string_view message);

}  // namespace ferry::onnx
