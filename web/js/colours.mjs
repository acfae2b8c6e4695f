// What an operator does, as a colour: the same in every graph.
const kinds = [
  ['#3b7dd8', /^(.*Conv.*|.*MatMul.*|.*Gemm.*|Einsum|LSTM|GRU|RNN|.*Attention.*|Embed.*|DFT|STFT|DeformConv)$/],
  ['#8a6d5a', /^(.*[Qq]uantize.*|QLinear.*|MatMulNBits)$/],
  ['#c4574d', /^(.*Relu|.*Elu|Celu|Selu|.*Sigmoid|.*Swish|.*Gelu|Tanh|.*Softmax|Softplus|Softsign|Mish|Erf|Clip|Hardmax|.*Dropout|Shrink|Swish)$/],
  ['#2e9e6b', /^(.*Normalization|.*LayerNorm.*|LRN|LpNormalization)$/],
  ['#4a9fb0', /^(.*Pool.*|Reduce.*|Arg.*|TopK|CumSum|NonMaxSuppression|NonZero|Unique)$/],
  ['#7a68c4', /^(Reshape|Transpose|Concat.*|Split.*|Slice|Squeeze|Unsqueeze|Flatten|Gather.*|Scatter.*|Pad|Expand|Tile|Shape|Size|Cast.*|Resize|Upsample|Identity|DepthToSpace|SpaceToDepth|Constant.*|Range|OneHot|Compress|Trilu|EyeLike|ReverseSequence)$/],
  ['#b5487b', /^(If|Loop|Scan|Sequence.*|Optional.*)$/],
  ['#d9822b', /^(Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Neg|Abs|Reciprocal|Min|Max|Mean|Sum|Mod|Where|Equal|Less.*|Greater.*|And|Or|Not|Xor|Floor|Ceil|Round|Sign|Sin.*|Cos.*|A?Tan|Is.*|Bit.*)$/],
  ['#68727c', /^(input|output|group)$/],
];
const others = ['#a08a2c', '#5b7f3a', '#5f7fa8', '#a0627a'];
const known = new Map();
let next = 0;

export function colourOf(op) {
  if (!known.has(op)) known.set(op, kinds.find(([, names]) => names.test(op))?.[0] || others[next++ % others.length]);
  return known.get(op);
}
