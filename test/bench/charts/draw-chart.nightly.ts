import test from 'ava';
import { drawChart } from './draw-chart.ts';

/** The names of elements that are open or closed in a wrong place. `text` must not contain unescaped markup. */
function faultsIn(svg: string): string[] {
  const open: string[] = [];
  const faults: string[] = [];
  for (const [, closes, name = '', ends] of svg.matchAll(/<(\/?)([a-z]+)(?:\s[\w:-]+="[^"<]*")*\s*(\/?)>/g)) {
    if (closes === '/') {
      if (open.pop() !== name) faults.push(name);
    } else if (ends !== '/') open.push(name);
  }
  const rest = svg.replace(/<\/?[a-z]+(?:\s[\w:-]+="[^"<]*")*\s*\/?>/g, '');
  if (/[<>]|&(?!amp;|lt;|gt;|quot;)/.test(rest)) faults.push('text');
  return [...faults, ...open];
}

const bar = { label: 'a', parts: { share: 1 }, low: 0.5, high: 1.5, text: '1' };

test('a chart is well-formed for any texts', (t) => {
  t.deepEqual(faultsIn('<svg><rect/></svg>'), []);
  t.deepEqual(faultsIn('<svg><text>a & b</svg>'), ['svg', 'text', 'svg']);
  const words = 'a <b> & "c" \'d\' </text>';
  const chart = {
    title: words,
    caption: words,
    panels: [{ title: words, bars: [{ ...bar, label: words, text: words }] }],
  };
  t.deepEqual(faultsIn(drawChart(chart)), []);
});

test('the length of a bar is its share of the longest, and one beyond the end of the scale is cut there', (t) => {
  const widths = (max?: number) => {
    const bars = [4, 2].map((value) => ({ label: 'a', parts: { value }, text: '' }));
    const svg = drawChart({ title: '', caption: '', panels: [{ title: '', bars, ...(max !== undefined && { max }) }] });
    return [...svg.matchAll(/<rect [^>]*width="([\d.]+)"/g)].map(([, width]) => Number(width));
  };
  t.deepEqual(widths(), [480, 240]);
  t.deepEqual(widths(2), [480, 480]);
});

test('parts are adjacent and explained in a legend, and a negative part takes no room', (t) => {
  const bars = [{ label: 'a', parts: { ingress: 1, worker: 3 }, text: '' }];
  const svg = drawChart({ title: '', caption: '', panels: [{ title: '', bars }] });
  const places = [...svg.matchAll(/<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="14"/g)];
  t.deepEqual(
    places.map(([, x, width]) => [Number(x), Number(width)]),
    [
      [190, 120],
      [310, 360],
    ],
  );
  t.regex(svg, />ingress</);
  const negative = drawChart({
    title: '',
    caption: '',
    panels: [{ title: '', bars: [{ ...bar, parts: { value: -1 } }] }],
  });
  t.notRegex(negative, /width="-/);
});
