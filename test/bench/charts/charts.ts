import { takenOn } from '../comparison/documents.ts';
import type { Results } from '../comparison/results.ts';
import { names } from '../comparison/rows.ts';
import { compareRounds, cpuMicros, type Figure, requestsPerSecond, runsOf, spreadOf } from '../comparison/summarise.ts';
import { median } from '../measure.ts';
import type { Bar, Chart, Panel } from './draw-chart.ts';

const wholeLoads = ['1 client', '64 clients', '256 clients'];
const drawn = [names.one, names.two, names.portkey, names.litellm, names.smg];

/** A bar that is this much longer than the next one is cut off, so that the others can be compared. */
const cutAt = 3;

/** The charts of the page about benchmarks, by file name. */
export function chartsOf(results: Results): Record<string, Chart> {
  return {
    'requests.svg': {
      title: 'Requests a second, as a share of a bare Koa proxy’s',
      caption: captionOf(results),
      panels: onOneScale(wholeLoads.map((load) => ({ title: load, bars: shareBars(results, load) }))),
    },
    'cpu.svg': {
      title: 'Processor time for a request, µs',
      caption: captionOf(results),
      panels: [cpuPanel(results, '64 clients')],
    },
    'streams.svg': {
      title: '64 streams of 20 tokens a second: ms above a bare Koa proxy',
      caption: captionOf(results),
      panels: [
        aboveProxy(results, 'time to first token, p50', ({ stream }) => stream?.firstTokenP50Ms),
        aboveProxy(results, 'a token later than it was sent, p50', ({ stream }) => stream?.lateP50Ms),
        aboveProxy(results, 'a token later than it was sent, p99', ({ stream }) => stream?.lateP99Ms),
      ],
    },
  };
}

function onOneScale(panels: readonly Panel[]): Panel[] {
  const max = Math.max(0, ...panels.flatMap(({ bars }) => bars.map(({ high = 0 }) => high)));
  return panels.map((panel) => ({ ...panel, max }));
}

function shareBars({ runs }: Results, load: string): Bar[] {
  return drawn.flatMap((row) => {
    const share = compareRounds(runs, { load, row, to: names.proxy, figure: requestsPerSecond, by: 'ratio' });
    if (share === undefined) return [];
    const perSecond = spreadOf(runsOf(runs, { row, load }).map(requestsPerSecond))?.median ?? 0;
    const { median: middle, low, high } = share;
    const text = `${middle.toFixed(middle < 0.1 ? 3 : 2)} (${perSecond.toFixed(0)}/s)`;
    return [{ label: row, parts: { share: middle }, low, high, text }];
  });
}

function cpuPanel({ runs }: Results, load: string): Panel {
  const bars = [names.proxy, ...drawn].flatMap((row) => {
    const ofRow = runsOf(runs, { row, load });
    if (ofRow.length === 0) return [];
    const processes = Object.keys(ofRow[0]?.cpuMicros ?? {});
    const parts = processes.map((name) => [name, median(ofRow.map((run) => run.cpuMicros[name] ?? 0))] as const);
    const { median: total, low, high } = spreadOf(ofRow.map(cpuMicros)) ?? { median: 0, low: 0, high: 0 };
    return [{ label: row, parts: Object.fromEntries(parts), low, high, text: total.toFixed(0) }];
  });
  return cutLongest({ title: `${load}, whole answers`, bars });
}

function cutLongest(panel: Panel): Panel {
  const lengths = panel.bars.map(({ high = 0 }) => high).toSorted((one, other) => other - one);
  const [longest = 0, next = 0] = lengths;
  if (next <= 0 || longest <= cutAt * next) return panel;
  return { ...panel, title: `${panel.title}; the longest is cut off`, max: 1.25 * next };
}

function aboveProxy({ runs }: Results, title: string, figure: Figure): Panel {
  const load = '64 streams';
  const bars = drawn.flatMap((row) => {
    const above = compareRounds(runs, { load, row, to: names.proxy, figure, by: 'difference' });
    if (above === undefined) return [];
    const { median: middle, low, high } = above;
    return [{ label: row, parts: { above: middle }, low, high, text: middle.toFixed(1) }];
  });
  return cutLongest({ title, bars });
}

function captionOf({ taken, warnings, rounds, seconds }: Results): string {
  return `Medians of ${rounds} rounds of ${seconds} s, lowest to highest; ${[takenOn(taken.peers), ...warnings].join('; ')}`;
}
