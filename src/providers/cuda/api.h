// The functions of NVIDIA's libraries that Ferry calls, declared as their documented interfaces have them: no headers
// of CUDA are needed to build, and nothing is linked. Each list becomes a table of function pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::cuda {

// The driver's handles (CUdevice, CUdeviceptr, CUcontext …). Statuses are int; 0 is success in all four libraries.
using DeviceNumber = int;
using DeviceAddress = unsigned long long;
using Context = struct ContextHandle*;
using StreamHandle = struct StreamHandleType*;
using EventHandle = struct EventHandleType*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using GraphHandle = struct GraphHandleType*;
using GraphExec = struct GraphExecHandle*;

inline constexpr int kSuccess = 0, kErrorOutOfMemory = 2;
// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kL2CacheBytes = 38, kComputeMajor = 75, kComputeMinor = 76,
                     kSharedBytesPerBlock = 97;
inline constexpr int kMaxDynamicSharedBytes = 8;  // CUfunction_attribute
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureRelaxed = 2;  // CUstreamCaptureMode

#define FERRY_CUDA_DRIVER(X)                                                                                           \
  X(Init, "cuInit", int, (unsigned flags))                                                                             \
  X(DriverGetVersion, "cuDriverGetVersion", int, (int* version))                                                       \
  X(GetErrorName, "cuGetErrorName", int, (int error, const char** text))                                               \
  X(GetErrorString, "cuGetErrorString", int, (int error, const char** text))                                           \
  X(DeviceGetCount, "cuDeviceGetCount", int, (int* count))                                                             \
  X(DeviceGet, "cuDeviceGet", int, (DeviceNumber * device, int ordinal))                                               \
  X(DeviceGetName, "cuDeviceGetName", int, (char* name, int bytes, DeviceNumber device))                               \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", int, (int* value, int attribute, DeviceNumber device))                 \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", int, (size_t * bytes, DeviceNumber device))                                 \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", int, (Context * context, DeviceNumber device))                       \
  X(CtxSetCurrent, "cuCtxSetCurrent", int, (Context context))                                                          \
  X(MemGetInfo, "cuMemGetInfo_v2", int, (size_t * free, size_t * total))                                               \
  X(MemAlloc, "cuMemAlloc_v2", int, (DeviceAddress * address, size_t bytes))                                           \
  X(MemFree, "cuMemFree_v2", int, (DeviceAddress address))                                                             \
  X(MemAllocHost, "cuMemAllocHost_v2", int, (void** address, size_t bytes))                                            \
  X(MemFreeHost, "cuMemFreeHost", int, (void* address))                                                                \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", int,                                                                      \
    (DeviceAddress to, const void* from, size_t bytes, StreamHandle stream))                                           \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", int, (void* to, DeviceAddress from, size_t bytes, StreamHandle stream))   \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", int,                                                                      \
    (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream))                                         \
  X(MemsetD8Async, "cuMemsetD8Async", int, (DeviceAddress to, unsigned char value, size_t bytes, StreamHandle stream)) \
  X(StreamCreate, "cuStreamCreate", int, (StreamHandle * stream, unsigned flags))                                      \
  X(StreamSynchronize, "cuStreamSynchronize", int, (StreamHandle stream))                                              \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", int, (StreamHandle stream, int mode))                               \
  X(StreamEndCapture, "cuStreamEndCapture", int, (StreamHandle stream, GraphHandle * graph))                           \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", int,                                                              \
    (GraphExec * exec, GraphHandle graph, unsigned long long flags))                                                   \
  X(GraphLaunch, "cuGraphLaunch", int, (GraphExec exec, StreamHandle stream))                                          \
  X(GraphExecDestroy, "cuGraphExecDestroy", int, (GraphExec exec))                                                     \
  X(GraphDestroy, "cuGraphDestroy", int, (GraphHandle graph))                                                          \
  X(EventCreate, "cuEventCreate", int, (EventHandle * event, unsigned flags))                                          \
  X(EventRecord, "cuEventRecord", int, (EventHandle event, StreamHandle stream))                                       \
  X(EventSynchronize, "cuEventSynchronize", int, (EventHandle event))                                                  \
  X(EventElapsedTime, "cuEventElapsedTime", int, (float* ms, EventHandle from, EventHandle to))                        \
  X(EventDestroy, "cuEventDestroy_v2", int, (EventHandle event))                                                       \
  X(ModuleLoadData, "cuModuleLoadData", int, (Module * module, const void* image))                                     \
  X(ModuleGetFunction, "cuModuleGetFunction", int, (Function * function, Module module, const char* name))             \
  X(FuncSetAttribute, "cuFuncSetAttribute", int, (Function function, int attribute, int value))                        \
  X(LaunchKernel, "cuLaunchKernel", int,                                                                               \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters, void** extra))

using NvrtcProgram = struct NvrtcProgramHandle*;

#define FERRY_CUDA_NVRTC(X)                                                                                      \
  X(Version, "nvrtcVersion", int, (int* major, int* minor))                                                      \
  X(GetErrorString, "nvrtcGetErrorString", const char*, (int error))                                             \
  X(CreateProgram, "nvrtcCreateProgram", int,                                                                    \
    (NvrtcProgram * program, const char* source, const char* name, int headers, const char* const* header_texts, \
     const char* const* header_names))                                                                           \
  X(DestroyProgram, "nvrtcDestroyProgram", int, (NvrtcProgram * program))                                        \
  X(CompileProgram, "nvrtcCompileProgram", int, (NvrtcProgram program, int options, const char* const* texts))   \
  X(GetCubinSize, "nvrtcGetCUBINSize", int, (NvrtcProgram program, size_t * bytes))                              \
  X(GetCubin, "nvrtcGetCUBIN", int, (NvrtcProgram program, char* bytes))                                         \
  X(GetLogSize, "nvrtcGetProgramLogSize", int, (NvrtcProgram program, size_t * bytes))                           \
  X(GetLog, "nvrtcGetProgramLog", int, (NvrtcProgram program, char* text))

using LtHandle = struct LtHandleType*;
using LtMatmul = struct LtMatmulType*;
using LtLayout = struct LtLayoutType*;
using LtPreference = struct LtPreferenceType*;
struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96);

inline constexpr int kRealFloat = 0, kRealDouble = 1, kRealHalf = 2, kRealBfloat16 = 14;  // cudaDataType
// cublasComputeType_t
inline constexpr int kCompute32F = 68, kCompute64F = 70, kCompute32FTf32 = 77;
// cublasLtMatmulDescAttributes_t
inline constexpr int kLtTransA = 3, kLtTransB = 4, kLtEpilogue = 7, kLtBiasPointer = 8;
inline constexpr int kLtEpilogueDefault = 1, kLtEpilogueRelu = 2, kLtEpilogueBias = 4, kLtEpilogueGelu = 32;
inline constexpr int kLtBatchCount = 5, kLtBatchStride = 6;    // cublasLtMatrixLayoutAttribute_t
inline constexpr int kLtWorkspaceBytes = 1, kLtAlignment = 5;  // cublasLtMatmulPreferenceAttributes_t

#define FERRY_CUDA_CUBLASLT(X)                                                                                  \
  X(GetVersion, "cublasLtGetVersion", size_t, ())                                                               \
  X(GetStatusName, "cublasLtGetStatusName", const char*, (int status))                                          \
  X(Create, "cublasLtCreate", int, (LtHandle * handle))                                                         \
  X(MatmulDescCreate, "cublasLtMatmulDescCreate", int, (LtMatmul * matmul, int compute, int scale_type))        \
  X(MatmulDescDestroy, "cublasLtMatmulDescDestroy", int, (LtMatmul matmul))                                     \
  X(MatmulDescSet, "cublasLtMatmulDescSetAttribute", int,                                                       \
    (LtMatmul matmul, int attribute, const void* value, size_t bytes))                                          \
  X(LayoutCreate, "cublasLtMatrixLayoutCreate", int,                                                            \
    (LtLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                             \
  X(LayoutDestroy, "cublasLtMatrixLayoutDestroy", int, (LtLayout layout))                                       \
  X(LayoutSet, "cublasLtMatrixLayoutSetAttribute", int,                                                         \
    (LtLayout layout, int attribute, const void* value, size_t bytes))                                          \
  X(PreferenceCreate, "cublasLtMatmulPreferenceCreate", int, (LtPreference * preference))                       \
  X(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", int, (LtPreference preference))                       \
  X(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute", int,                                                 \
    (LtPreference preference, int attribute, const void* value, size_t bytes))                                  \
  X(GetHeuristic, "cublasLtMatmulAlgoGetHeuristic", int,                                                        \
    (LtHandle handle, LtMatmul matmul, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference preference, \
     int asked, LtHeuristic* results, int* found))                                                              \
  X(Matmul, "cublasLtMatmul", int,                                                                              \
    (LtHandle handle, LtMatmul matmul, const void* alpha, const void* a, LtLayout a_layout, const void* b,      \
     LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout, void* d, LtLayout d_layout,         \
     const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, StreamHandle stream))

using DnnHandle = struct DnnHandleType*;
using DnnTensor = struct DnnTensorType*;
using DnnFilter = struct DnnFilterType*;
using DnnConvolution = struct DnnConvolutionType*;
using DnnActivation = struct DnnActivationType*;
struct DnnConvolutionTiming {
  int algorithm;
  int status;
  float ms;
  size_t workspace_bytes;
  int determinism;
  int math;
  int reserved[3];
};
static_assert(sizeof(DnnConvolutionTiming) == 48);

inline constexpr int kDnnFloat = 0, kDnnHalf = 2, kDnnBfloat16 = 9;  // cudnnDataType_t
inline constexpr int kDnnNchw = 0, kDnnNhwc = 1;                     // cudnnTensorFormat_t
inline constexpr int kDnnCrossCorrelation = 1;
inline constexpr int kDnnDefaultMath = 0, kDnnTensorMath = 1, kDnnFmaMath = 3;  // cudnnMathType_t
inline constexpr int kDnnRelu = 1, kDnnIdentity = 5;                            // cudnnActivationMode_t
inline constexpr int kDnnImplicitPrecompGemm = 1;                               // cudnnConvolutionFwdAlgo_t

// cuDNN's graph interface: descriptors of all kinds, filled by attributes.
using DnnDescriptor = void*;
namespace dnn {
enum DescriptorKind {  // cudnnBackendDescriptorType_t
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kExecutionPlan = 5,
  kOperationConvolution = 10,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17
};
enum ValueKind {  // cudnnBackendAttributeType_t
  kHandleValue = 0,
  kDataTypeValue = 1,
  kBooleanValue = 2,
  kInt64Value = 3,
  kFloatValue = 4,
  kDoubleValue = 5,
  kPointerValue = 6,
  kConvolutionModeValue = 7,
  kHeuristicModeValue = 8,
  kNumericalNoteValue = 11,
  kPointwiseModeValue = 14,
  kDescriptorValue = 15,
  kCharValue = 24
};
enum AttributeName {  // cudnnBackendAttributeName_t
  kPointwiseMode = 0,
  kPointwiseMathType = 1,
  kReluLower = 3,
  kReluUpper = 4,
  kSwishBeta = 8,
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionAxes = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanText = 405,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303
};
inline constexpr int kModeAdd = 0, kModeRelu = 100, kModeGelu = 104, kModeSwish = 106,
                     kModeGeluTanh = 107;                         // cudnnPointwiseMode_t
inline constexpr int kHeuristicFallback = 2, kHeuristicA = 3;     // cudnnBackendHeurMode_t
inline constexpr int kNoteTensorCore = 0, kNoteDownConverts = 1;  // cudnnBackendNumericalNote_t
}  // namespace dnn

#define FERRY_CUDA_CUDNN(X)                                                                                      \
  X(GetVersion, "cudnnGetVersion", size_t, ())                                                                   \
  X(GetErrorString, "cudnnGetErrorString", const char*, (int status))                                            \
  X(Create, "cudnnCreate", int, (DnnHandle * handle))                                                            \
  X(SetStream, "cudnnSetStream", int, (DnnHandle handle, StreamHandle stream))                                   \
  X(CreateTensor, "cudnnCreateTensorDescriptor", int, (DnnTensor * tensor))                                      \
  X(DestroyTensor, "cudnnDestroyTensorDescriptor", int, (DnnTensor tensor))                                      \
  X(SetTensorNd, "cudnnSetTensorNdDescriptor", int,                                                              \
    (DnnTensor tensor, int type, int rank, const int* dims, const int* strides))                                 \
  X(CreateFilter, "cudnnCreateFilterDescriptor", int, (DnnFilter * filter))                                      \
  X(DestroyFilter, "cudnnDestroyFilterDescriptor", int, (DnnFilter filter))                                      \
  X(SetFilterNd, "cudnnSetFilterNdDescriptor", int,                                                              \
    (DnnFilter filter, int type, int format, int rank, const int* dims))                                         \
  X(CreateConvolution, "cudnnCreateConvolutionDescriptor", int, (DnnConvolution * convolution))                  \
  X(DestroyConvolution, "cudnnDestroyConvolutionDescriptor", int, (DnnConvolution convolution))                  \
  X(SetConvolutionNd, "cudnnSetConvolutionNdDescriptor", int,                                                    \
    (DnnConvolution convolution, int rank, const int* pads, const int* strides, const int* dilations, int mode,  \
     int compute_type))                                                                                          \
  X(SetConvolutionGroups, "cudnnSetConvolutionGroupCount", int, (DnnConvolution convolution, int groups))        \
  X(SetConvolutionMath, "cudnnSetConvolutionMathType", int, (DnnConvolution convolution, int math))              \
  X(CreateActivation, "cudnnCreateActivationDescriptor", int, (DnnActivation * activation))                      \
  X(DestroyActivation, "cudnnDestroyActivationDescriptor", int, (DnnActivation activation))                      \
  X(SetActivation, "cudnnSetActivationDescriptor", int,                                                          \
    (DnnActivation activation, int mode, int nan_propagation, double coefficient))                               \
  X(GetConvolutionAlgorithms, "cudnnGetConvolutionForwardAlgorithm_v7", int,                                     \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y, int asked, int* found, \
     DnnConvolutionTiming* results))                                                                             \
  X(GetConvolutionWorkspace, "cudnnGetConvolutionForwardWorkspaceSize", int,                                     \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y, int algorithm,         \
     size_t* bytes))                                                                                             \
  X(ConvolutionForward, "cudnnConvolutionForward", int,                                                          \
    (DnnHandle handle, const void* alpha, DnnTensor x_layout, const void* x, DnnFilter w_layout, const void* w,  \
     DnnConvolution convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,       \
     DnnTensor y_layout, void* y))                                                                               \
  X(ConvolutionBiasActivation, "cudnnConvolutionBiasActivationForward", int,                                     \
    (DnnHandle handle, const void* alpha, DnnTensor x_layout, const void* x, DnnFilter w_layout, const void* w,  \
     DnnConvolution convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* alpha_of_z, \
     DnnTensor z_layout, const void* z, DnnTensor bias_layout, const void* bias, DnnActivation activation,       \
     DnnTensor y_layout, void* y))                                                                               \
  X(CreateDescriptor, "cudnnBackendCreateDescriptor", int, (int kind, DnnDescriptor* descriptor))                \
  X(DestroyDescriptor, "cudnnBackendDestroyDescriptor", int, (DnnDescriptor descriptor))                         \
  X(Finalize, "cudnnBackendFinalize", int, (DnnDescriptor descriptor))                                           \
  X(SetAttribute, "cudnnBackendSetAttribute", int,                                                               \
    (DnnDescriptor descriptor, int name, int kind, int64_t count, const void* values))                           \
  X(GetAttribute, "cudnnBackendGetAttribute", int,                                                               \
    (DnnDescriptor descriptor, int name, int kind, int64_t asked, int64_t* count, void* values))                 \
  X(Execute, "cudnnBackendExecute", int, (DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack))

#define FERRY_CUDA_POINTER(field, symbol, result, parameters) result(*field) parameters = nullptr;
struct DriverApi {
  FERRY_CUDA_DRIVER(FERRY_CUDA_POINTER)
};
struct NvrtcApi {
  FERRY_CUDA_NVRTC(FERRY_CUDA_POINTER)
};
struct CublasLtApi {
  FERRY_CUDA_CUBLASLT(FERRY_CUDA_POINTER)
};
struct CudnnApi {
  FERRY_CUDA_CUDNN(FERRY_CUDA_POINTER)
};
#undef FERRY_CUDA_POINTER

}  // namespace ferry::cuda
