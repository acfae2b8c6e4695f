// Field numbers of ONNX's protobuf messages, IR versions 1 to 14.
#pragma once

#include <cstdint>

namespace ferry::onnx {

using Tag = uint32_t;

inline constexpr int64_t kNewestIrVersion = 14;

namespace entry_field {
inline constexpr Tag kKey = 1, kValue = 2;
}
namespace model_field {
inline constexpr Tag kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kDomain = 4, kModelVersion = 5, kDoc = 6,
                     kGraph = 7, kOpsetImport = 8, kMetadata = 14, kTrainingInfo = 20, kFunctions = 25,
                     kConfiguration = 26;
}
namespace opset_field {
inline constexpr Tag kDomain = 1, kVersion = 2;
}
namespace graph_field {
inline constexpr Tag kNode = 1, kName = 2, kInitializer = 5, kDoc = 10, kInput = 11, kOutput = 12, kValueInfo = 13,
                     kQuantization = 14, kSparseInitializer = 15, kMetadata = 16;
}
namespace annotation_field {
inline constexpr Tag kTensorName = 1, kParameters = 2;
}
namespace node_field {
inline constexpr Tag kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDoc = 6, kDomain = 7,
                     kOverload = 8, kMetadata = 9, kDeviceConfigurations = 10;
}
namespace attribute_field {
inline constexpr Tag kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5, kGraph = 6, kFloats = 7, kInts = 8,
                     kStrings = 9, kTensors = 10, kGraphs = 11, kDoc = 13, kType = 14, kTypes = 15, kAttributeType = 20,
                     kRefName = 21, kSparseTensor = 22, kSparseTensors = 23;
}
namespace value_info_field {
inline constexpr Tag kName = 1, kType = 2, kDoc = 3, kMetadata = 4;
}
namespace function_field {
inline constexpr Tag kName = 1, kInput = 4, kOutput = 5, kAttribute = 6, kNode = 7, kDoc = 8, kOpsetImport = 9,
                     kDomain = 10, kAttributeProto = 11, kValueInfo = 12, kOverload = 13, kMetadata = 14;
}
namespace training_field {
inline constexpr Tag kInitialization = 1, kAlgorithm = 2, kInitializationBinding = 3, kUpdateBinding = 4;
}
namespace tensor_field {
inline constexpr Tag kDims = 1, kDataType = 2, kSegment = 3, kFloatData = 4, kInt32Data = 5, kStringData = 6,
                     kInt64Data = 7, kName = 8, kRawData = 9, kDoubleData = 10, kUInt64Data = 11, kDoc = 12,
                     kExternalData = 13, kDataLocation = 14, kMetadata = 16;
inline constexpr int32_t kLocationDefault = 0, kLocationExternal = 1;
}  // namespace tensor_field
namespace segment_field {
inline constexpr Tag kBegin = 1, kEnd = 2;
}
namespace sparse_field {
inline constexpr Tag kValues = 1, kIndices = 2, kDims = 3;
}
namespace type_field {
inline constexpr Tag kTensor = 1, kSequence = 4, kMap = 5, kDenotation = 6, kOpaque = 7, kSparseTensor = 8,
                     kOptional = 9;
inline constexpr Tag kElementType = 1, kShape = 2;  // of Tensor and SparseTensor; Sequence and Optional have the first
inline constexpr Tag kKeyType = 1, kValueType = 2;  // of Map
inline constexpr Tag kOpaqueDomain = 1, kOpaqueName = 2;
}  // namespace type_field
namespace shape_field {
inline constexpr Tag kDim = 1;
inline constexpr Tag kDimValue = 1, kDimParam = 2, kDenotation = 3;  // of Dimension
}  // namespace shape_field
namespace sequence_field {
inline constexpr Tag kName = 1, kElementType = 2, kTensors = 3, kSparseTensors = 4, kSequences = 5, kMaps = 6,
                     kOptionals = 7;
}
namespace map_field {
inline constexpr Tag kName = 1, kKeyType = 2, kKeys = 3, kStringKeys = 4, kValues = 5;
}
namespace optional_field {
inline constexpr Tag kName = 1, kElementType = 2, kTensor = 3, kSparseTensor = 4, kSequence = 5, kMap = 6,
                     kOptional = 7;
}

// What SequenceProto and OptionalProto say they hold.
enum class HeldKind : int32_t {
  kUndefined = 0,
  kTensor = 1,
  kSparseTensor = 2,
  kSequence = 3,
  kMap = 4,
  kOptional = 5
};

}  // namespace ferry::onnx
