#!/bin/sh
# Every network that PyTorch exported, against PyTorch's own outputs at every recorded batch size.
#   compare_networks.sh FERRY FOLDER
set -eu
ferry=$1
folder=$2
passed=0
failed=0
compare() {
  if "$ferry" compare "$@" >/dev/null 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    "$ferry" compare "$@" || true
  fi
}
for network in "$folder"/*/; do
  if [ -f "${network}torch.onnx" ]; then
    for recording in "${network}"io_*.npz; do compare "${network}torch.onnx" --data "$recording"; done
  fi
  # PyTorch's older exporter baked the batch size 2 into these.
  if [ -f "${network}torch_legacy14.onnx" ]; then compare "${network}torch_legacy14.onnx" --data "${network}io_2.npz"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
