#!/bin/sh
# The binaries stay small: usage: sizes_test.sh FERRY FERRY_RUNTIME TORCH_MODELS
set -eu
ferry=$1 runtime=$2 net=$3/simple_net
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

at_most() {  # BINARY BYTES
  strip -o "$work/stripped" "$1"
  size=$(wc -c < "$work/stripped")
  echo "$(basename "$1"): $size bytes, at most $2"
  [ "$size" -le "$2" ]
}
at_most "$ferry" 9500000
at_most "$runtime" 6200000

"$runtime" compare "$net/torch.onnx" --data "$net/io_1.npz"
if "$runtime" export "$net/model.pt2" -o "$work/model.onnx" 2> "$work/refusal"; then exit 1; fi
grep -q "no command 'export'" "$work/refusal"
