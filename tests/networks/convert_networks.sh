#!/bin/sh
# Every network, as PyTorch exported it or as Ferry does where PyTorch could not, written for every opset from 11 to 28:
# the same answers as the original, or a refusal with its reason. Refusals are listed; an answer that differs fails.
#   convert_networks.sh FERRY FOLDER
set -eu
ferry=$1
folder=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
converted=0
refused=0
failed=0
convert() {
  model=$1
  network=$2
  for opset in $(seq 11 28); do
    status=0
    "$ferry" convert "$model" --opset "$opset" -o "$scratch/out.onnx" >"$scratch/said" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
      refused=$((refused + 1))
      echo "refused: $model to $opset: $(cat "$scratch/said")"
      [ "$status" -eq 3 ] && [ -s "$scratch/said" ] || failed=$((failed + 1))
      continue
    fi
    if "$ferry" compare "$scratch/out.onnx" "$model" --data "$network/io_2.npz" --no-edge-cases --rtol 1e-4 \
      >"$scratch/said" 2>&1; then
      converted=$((converted + 1))
    else
      failed=$((failed + 1))
      echo "differs: $model to $opset"
      cat "$scratch/said"
    fi
  done
}

for network in "$folder"/*/; do
  if [ ! -f "${network}torch.onnx" ]; then
    name=$(basename "$network")
    program=${network}model.pt2
    [ -f "$program" ] || program=${network}model.pt
    "$ferry" export "$program" -o "$scratch/$name.onnx" >/dev/null
    convert "$scratch/$name.onnx" "$network"
  fi
  for model in "$network"torch*.onnx; do
    # What was exported in training mode drops by chance: its answers say nothing.
    case $model in *train_mode* | *'*'*) continue ;; esac
    convert "$model" "$network"
  done
done
echo "$converted converted with equal outputs, $refused refused, $failed failed"
[ "$failed" -eq 0 ] && [ "$converted" -gt 0 ]
