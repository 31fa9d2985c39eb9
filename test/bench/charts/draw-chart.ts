/** A bar is one value, or several adjacent parts. `low` and `high` are drawn as a line across its end. */
export type Bar = { label: string; parts: Record<string, number>; low?: number; high?: number; text: string };

/** A bar longer than `max` is cut there, and its text has the value. Default: the longest bar fills the width. */
export type Panel = { title: string; bars: readonly Bar[]; max?: number };

export type Chart = { title: string; caption: string; panels: readonly Panel[] };

/** Halfway between black and white, so that they are readable on either. */
const textColour = '#737b85';
const colours = ['#4c8dd6', '#d9823b', '#5aa469', '#a472c4', '#8a8f98'];

const size = { width: 820, left: 190, right: 150, row: 24, bar: 14, title: 46, panel: 34, caption: 30 };
const barsWidth = size.width - size.left - size.right;

/** Draws horizontal bars as an SVG document. Parts of the same name have the same colour, which a legend explains if there are several. */
export function drawChart({ title, caption, panels }: Chart): string {
  const names = [...new Set(panels.flatMap(({ bars }) => bars.flatMap(({ parts }) => Object.keys(parts))))];
  const lines: string[] = [text({ x: 10, y: 24, size: 16, bold: true }, title)];
  let y = size.title;
  if (names.length > 1) {
    lines.push(...drawLegend(names, y));
    y += size.row;
  }
  for (const panel of panels) {
    lines.push(text({ x: 10, y: y + 16, size: 13, bold: true }, panel.title));
    y += size.panel - 8;
    const max = panel.max ?? Math.max(...panel.bars.map((bar) => Math.max(lengthOf(bar), bar.high ?? 0)));
    const place = (value: number) => size.left + barsWidth * Math.min(1, Math.max(0, value / (max || 1)));
    for (const bar of panel.bars) {
      lines.push(...drawBar(bar, { y, names, place }));
      y += size.row;
    }
    y += 8;
  }
  lines.push(text({ x: 10, y: y + 14, size: 11 }, caption));
  const height = y + size.caption;
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${height}" viewBox="0 0 ${size.width} ${height}" role="img" aria-label="${escapeText(title)}" font-family="system-ui, sans-serif">`;
  return `${head}\n${lines.join('\n')}\n</svg>\n`;
}

type Scale = { y: number; names: readonly string[]; place: (value: number) => number };

function drawBar(bar: Bar, { y, names, place }: Scale): string[] {
  const [top, middle] = [y + (size.row - size.bar) / 2, y + size.row / 2];
  const drawn = [text({ x: size.left - 8, y: middle + 4, size: 12, anchor: 'end' }, bar.label)];
  let from = 0;
  for (const [name, value] of Object.entries(bar.parts)) {
    const [left, right] = [place(from), place(from + value)];
    const colour = colours[names.indexOf(name) % colours.length];
    drawn.push(
      `<rect x="${left.toFixed(1)}" y="${top}" width="${(right - left).toFixed(1)}" height="${size.bar}" fill="${colour}"/>`,
    );
    from += Math.max(0, value);
  }
  if (bar.low !== undefined && bar.high !== undefined) {
    const [left, right] = [place(bar.low).toFixed(1), place(bar.high).toFixed(1)];
    const path = `M${left} ${middle - 4}v8M${left} ${middle}H${right}M${right} ${middle - 4}v8`;
    drawn.push(`<path d="${path}" stroke="${textColour}" stroke-width="1.5" fill="none"/>`);
  }
  const end = place(Math.max(from, bar.high ?? 0));
  drawn.push(text({ x: Math.round(end) + 8, y: middle + 4, size: 12 }, bar.text));
  return drawn;
}

function drawLegend(names: readonly string[], y: number): string[] {
  return names.flatMap((name, index) => {
    const x = 10 + index * 130;
    return [
      `<rect x="${x}" y="${y + 2}" width="12" height="12" fill="${colours[index % colours.length]}"/>`,
      text({ x: x + 18, y: y + 12, size: 12 }, name),
    ];
  });
}

function lengthOf({ parts }: Bar): number {
  return Object.values(parts).reduce((sum, value) => sum + value, 0);
}

type Style = { x: number; y: number; size: number; bold?: boolean; anchor?: 'end' };

function text({ x, y, size: fontSize, bold = false, anchor }: Style, words: string): string {
  const weight = bold ? ' font-weight="600"' : '';
  const at = anchor === undefined ? '' : ` text-anchor="${anchor}"`;
  return `<text x="${x}" y="${y}" font-size="${fontSize}"${weight}${at} fill="${textColour}">${escapeText(words)}</text>`;
}

function escapeText(words: string): string {
  return words.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}
