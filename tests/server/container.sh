#!/bin/sh
# Builds the container of deploy/container with buildah, runs it where containers can be run, and asks it for an inference:
#   container.sh FERRY_SERVER MODEL.onnx
set -eu
[ $# -eq 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
command -v buildah >/dev/null || { echo "buildah is not installed: the container is not built"; exit 0; }
recipe=$(dirname "$0")/../../deploy/container
folder=$(mktemp -d)
images="buildah --storage-driver vfs --root $folder/images --runroot $folder/run"
process=
finish() {
  [ -z "$process" ] || kill "$process" 2>/dev/null || true
  $images rm -a >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap finish EXIT
sh "$recipe/build_root" "$1" "$folder/root"
mkdir -p "$folder/models/tried/1"
cp "$2" "$folder/models/tried/1/model.onnx"
$images bud --isolation chroot -q -t ferry-server -f "$recipe/Containerfile" "$folder/root" >/dev/null
container=$($images from ferry-server)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# Without a runtime of containers, which needs more rights than a build machine gives.
$images run --isolation chroot --network host -v "$folder/models:/models:ro" "$container" -- /usr/bin/ferry-server --model-repository /models \
  --http-address 127.0.0.1 --http-port "$port" --allow-grpc=false --allow-metrics=false 2>"$folder/log" &
process=$!
for _ in $(seq 100); do
  curl -sf "http://127.0.0.1:$port/v2/health/ready" >/dev/null && break
  sleep 0.1
done
curl -sf "http://127.0.0.1:$port/v2/models/tried" || { cat "$folder/log" >&2; exit 1; }
echo
du -sh "$folder/root" | sed 's/\t.*/ of container, built and run/'
