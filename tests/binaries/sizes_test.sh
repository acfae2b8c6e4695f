#!/bin/sh
# The binaries stay small: usage: sizes_test.sh FERRY FERRY_RUNTIME TORCH_MODELS [FERRY_SERVER]
set -eu
ferry=$1 runtime=$2 net=$3/simple_net server=${4:-}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

at_most() {  # BINARY BYTES
  size=$(wc -c < "$1")  # stripped by the build, with its symbols beside it
  [ -s "$1.debug" ] || { echo "$1.debug is missing"; exit 1; }
  echo "$(basename "$1"): $size bytes, at most $2"
  [ "$size" -le "$2" ]
}
at_most "$ferry" 12000000
at_most "$runtime" 7000000
[ -z "$server" ] || at_most "$server" 12000000
# README says how large they are, to within a few per cent.
for binary in "$ferry" "$runtime"; do
  said=$(sed -n "s|.*\`build/$(basename "$binary")\` (\([0-9.]*\) MB).*|\1|p" README.md)
  awk "BEGIN { off = $(wc -c < "$binary") / 1e6 / ${said:-0.1}; exit !(off > 0.95 && off < 1.05) }" ||
    { echo "README says ${said:-nothing} MB of $binary, which has $(wc -c < "$binary") bytes"; exit 1; }
done

"$runtime" compare "$net/torch.onnx" --data "$net/io_1.npz"
if "$runtime" export "$net/model.pt2" -o "$work/model.onnx" 2> "$work/refusal"; then exit 1; fi
grep -q "no command 'export'" "$work/refusal"
