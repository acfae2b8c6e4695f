#!/bin/sh
# A request with curl: infer.sh URL MODEL INPUT COUNT sends COUNT ones of FP32 as one row.
set -eu
[ $# -eq 4 ] || { echo "usage: infer.sh URL MODEL INPUT COUNT" >&2; exit 2; }
data=$(seq -s, 1 "$4" | sed 's/[0-9][0-9]*/1/g')
curl -sS --fail-with-body -H 'Content-Type: application/json' "$1/v2/models/$2/infer" \
  -d "{\"id\":\"example\",\"inputs\":[{\"name\":\"$3\",\"datatype\":\"FP32\",\"shape\":[1,$4],\"data\":[$data]}]}"
echo
