// A bar for each network: how many times faster Ferry is than ONNX Runtime.
const WIDTH = 760, LEFT = 210, RIGHT = 60, ROW = 22, TOP = 46;

export function barChart(rows, summary) {
  const sorted = [...rows].sort((a, b) => b.ratio - a.ratio), height = TOP + ROW * sorted.length + 30;
  const most = Math.max(1.25, ...sorted.map((row) => row.ratio)), scale = (WIDTH - LEFT - RIGHT) / most, one = LEFT + scale;
  const bars = sorted.map((row, i) => {
    const y = TOP + ROW * i, width = row.ratio * scale;
    return `<text x="${LEFT - 8}" y="${y + 14}" text-anchor="end">${row.network}</text>` +
      `<rect x="${LEFT}" y="${y + 2}" width="${width.toFixed(1)}" height="${ROW - 6}" fill="${row.ratio >= 1 ? '#2a9d8f' : '#e76f51'}"/>` +
      `<text x="${(LEFT + width + 5).toFixed(1)}" y="${y + 14}">${row.ratio.toFixed(2)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="10" y="20" font-size="15">ONNX Runtime's median / Ferry's, ${rows[0]?.threads ?? 1} thread(s): geometric mean ${summary.geometric_mean.toFixed(2)}</text>
${bars.join('\n')}
<line x1="${one}" y1="${TOP - 8}" x2="${one}" y2="${height - 22}" stroke="#444" stroke-dasharray="4 3"/>
<text x="${one}" y="${height - 8}" text-anchor="middle">as fast</text>
</svg>
`;
}
