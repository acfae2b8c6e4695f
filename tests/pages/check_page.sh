#!/bin/sh
# The page of 'ferry compare --html' in headless Chromium: it asks the network for nothing, fits a phone, and follows the
# reader's choice of light or dark. Needs Debian's package chromium; without it the test is skipped.
#   check_page.sh FERRY FOLDER [SCREENSHOTS]
set -eu
ferry=$1
network=$2/simple_net
screenshots=${3:-}
command -v chromium >/dev/null || { echo "there is no chromium here"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$ferry" compare "$network/torch.onnx" --against float64 --data "$network/io_2.npz" --layers --html "$scratch/page.html" \
  >/dev/null
# Measured from outside, in a frame as wide as a phone.
cat >"$scratch/phone.html" <<'END'
<!DOCTYPE html><body style="margin:0"><iframe id="f" src="page.html" style="border:0;width:390px;height:2000px"></iframe>
<pre id="said"></pre><script>
f.onload = () => {
  const page = f.contentDocument, root = page.documentElement;
  said.textContent = "width " + (root.scrollWidth <= 390 ? "fits" : root.scrollWidth) +
    "; colours " + f.contentWindow.getComputedStyle(page.body).backgroundColor +
    "; drawings " + page.querySelectorAll("svg").length +
    "; loads " + f.contentWindow.performance.getEntriesByType("resource").length;
};
</script>
END

browse() {
  chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --allow-file-access-from-files --virtual-time-budget=5000 \
    --user-data-dir="$scratch/profile" "$@" 2>/dev/null
}

expect() {
  if ! printf '%s' "$2" | grep -q "$1"; then
    echo "failed: '$1' is not in: $(printf '%s' "$2" | grep -o 'width [^<]*')"
    exit 1
  fi
}

light=$(browse --blink-settings=preferredColorScheme=1 --dump-dom "file://$scratch/phone.html")
dark=$(browse --blink-settings=preferredColorScheme=0 --dump-dom "file://$scratch/phone.html")
for said in "$light" "$dark"; do
  expect "width fits" "$said"
  expect "drawings 2" "$said"
  expect "loads 0" "$said"
done
expect "colours rgb(255, 255, 255)" "$light"
expect "colours rgb(13, 17, 23)" "$dark"
if [ -n "$screenshots" ]; then
  browse --hide-scrollbars --window-size=1100,2400 --screenshot="$screenshots/light.png" "file://$scratch/page.html"
  browse --hide-scrollbars --window-size=390,2400 --blink-settings=preferredColorScheme=0 \
    --screenshot="$screenshots/dark_phone.png" "file://$scratch/phone.html"
fi
echo "the page fits, in light and dark"
