import test from 'ava';
import { sampleRun } from '../../support/sample-runs.ts';
import { barsOf, boundOf, verdictOf } from './bars.ts';
import { names } from './rows.ts';
import { compareRounds, cpuMicros, requestsPerSecond, spreadOf } from './summarise.ts';

const load = '64 clients';

test('a spread is the median, the lowest and the highest of the measured values', (t) => {
  t.deepEqual(spreadOf([3, 1, 2]), { median: 2, low: 1, high: 3 });
  t.deepEqual(spreadOf([4, undefined, 1, Number.NaN]), { median: 2.5, low: 1, high: 4 });
  t.is(spreadOf([undefined]), undefined);
});

test('a ratio is computed within each round, so that a machine that slows down between rounds does not change it', (t) => {
  const runs = [1_000, 100, 10].flatMap((speed, round) => [
    sampleRun({ row: 'proxy', load, round, answered: 4 * speed }),
    sampleRun({ row: 'ours', load, round, answered: speed }),
  ]);
  const asked = { load, row: 'ours', to: 'proxy', figure: requestsPerSecond };
  t.deepEqual(compareRounds(runs, { ...asked, by: 'ratio' }), { median: 0.25, low: 0.25, high: 0.25 });
  t.deepEqual(compareRounds(runs, { ...asked, by: 'difference' }), { median: -300, low: -3_000, high: -30 });
});

test('a round without one of the two rows is left out', (t) => {
  const runs = [
    sampleRun({ row: 'proxy', load, round: 1 }),
    sampleRun({ row: 'ours', load, round: 1, answered: 500 }),
    sampleRun({ row: 'ours', load, round: 2, answered: 1 }),
    sampleRun({ row: 'proxy', load: '1 client', round: 2 }),
  ];
  const asked = { load, row: 'ours', to: 'proxy', figure: requestsPerSecond, by: 'ratio' } as const;
  t.deepEqual(compareRounds(runs, asked), { median: 0.5, low: 0.5, high: 0.5 });
  t.is(compareRounds(runs, { ...asked, to: 'none' }), undefined);
});

test('the CPU of a request includes all processes of its row', (t) => {
  t.is(cpuMicros(sampleRun({ row: 'ours', load, round: 1, cpuMicros: { ingress: 100, redis: 50 } })), 150);
});

test('a verdict is met, missed with the difference, or not measured', (t) => {
  const bar = { claim: 'x', atLeast: 1.2, goal: 1.5 };
  t.is(verdictOf({ ...bar, measured: 1.5 }), 'met, and the goal');
  t.is(verdictOf({ ...bar, measured: 1.2 }), 'met');
  t.is(verdictOf({ ...bar, measured: 0.9 }), 'missed by 0.30 (25%)');
  t.is(verdictOf({ ...bar, measured: undefined }), 'not measured');
  t.is(verdictOf({ claim: 'x', atMost: 0, measured: 3 }), 'missed by 3.0');
});

test('a bar is measured for the row and the load that it names', (t) => {
  const runs = [
    sampleRun({ row: names.one, load, round: 1, answered: 1_300, cpuMicros: { ingress: 60, worker: 20 } }),
    sampleRun({ row: names.portkey, load, round: 1, answered: 1_000 }),
  ];
  const byClaim = new Map(barsOf({ runs, warmUps: [] }).map((bar) => [bar.claim, bar.measured]));
  t.is(byClaim.get('64 clients: requests/s, relative to Portkey’s'), 1.3);
  t.is(byClaim.get('64 clients: CPU per request, relative to Portkey’s'), 0.8);
  t.is(byClaim.get('64 clients: requests/s, relative to LiteLLM’s'), undefined);
  t.true(byClaim.has('over-admitted requests, lost tokens and duplicates'));
  t.is(byClaim.get('over-admitted requests, lost tokens and duplicates'), undefined, 'nothing was counted');
});

test('streams are compared with Portkey, SMG and the bare proxy within each round', (t) => {
  const load = '256 streams';
  const delayed = (lateP50Ms: number, lateP99Ms: number) => ({
    ...{ firstTokenP50Ms: 30, firstTokenP99Ms: 60, betweenP50Ms: 50, betweenP99Ms: 60, chunksPerSecond: 5_000 },
    ...{ lateP50Ms, lateP99Ms },
  });
  const runs = [1, 2, 3].flatMap((round) => [
    sampleRun({ row: names.proxy, load, round, stream: delayed(100 * round, 200 * round) }),
    sampleRun({
      ...{ row: names.one, load, round, stream: delayed(100 * round + 8, 200 * round + 26) },
      cpuMicros: { ingress: 90 * round, worker: 60 * round },
    }),
    sampleRun({ row: names.portkey, load, round, cpuMicros: { gateway: 200 * round } }),
    sampleRun({ row: names.smg, load, round, cpuMicros: { gateway: 60 * round } }),
  ]);
  const bars = barsOf({ runs, warmUps: [] }).filter((bar) => bar.load === load);
  t.deepEqual(
    bars.map((bar) => [bar.claim, bar.measured, verdictOf(bar)]),
    [
      ['256 streams: CPU per token, relative to Portkey’s', 0.75, 'met'],
      ['256 streams: CPU per token, relative to SMG’s', 2.5, 'missed by 0.50 (25%)'],
      ['256 streams: delay of a token, less the bare proxy’s, p50, ms', 8, 'met'],
      ['256 streams: delay of a token, less the bare proxy’s, p99, ms', 26, 'missed by 1.0 (4%)'],
      ['256 streams: first token p50, ms', 30, 'met'],
    ],
  );
});

test('a wrong request in any run counts in the bar for all of them', (t) => {
  const right = { overAdmitted: 0, lostUsage: 0, duplicates: 0 };
  const runs = [
    sampleRun({ row: names.one, load, round: 1, books: right }),
    sampleRun({ row: names.two, load: '1 client', round: 1, books: { ...right, duplicates: 1 } }),
  ];
  t.is(barsOf({ runs, warmUps: [] }).at(-1)?.measured, 1);
  const warmUps = [{ row: names.one, load, books: { ...right, lostUsage: 2 } }];
  t.is(barsOf({ runs, warmUps }).at(-1)?.measured, 3, 'and before the first round');
});

test('more processes are judged only if there was a free core for them', (t) => {
  const verdict = (machineCpu: number, two: number) => {
    const runs = [
      sampleRun({ row: names.one, load, round: 1, machineCpu }),
      sampleRun({ row: names.two, load, round: 1, answered: two }),
    ];
    const bar = barsOf({ runs, warmUps: [] }).find(({ row }) => row === names.two);
    return bar && verdictOf(bar);
  };
  t.is(verdict(0.9, 900), 'not judged: no core is free here');
  t.is(verdict(0.89, 1_050), 'met');
  t.regex(verdict(0.89, 1_040) ?? '', /^missed/);
});

test('the bottleneck is named for a missed bar, and not for one that was met', (t) => {
  const bound = (answered: number, machineCpu: number) => {
    const runs = [
      sampleRun({ row: names.one, load, round: 1, answered, machineCpu, cpuMicros: { redis: 20, ingress: 60.4 } }),
      sampleRun({ row: names.portkey, load, round: 1 }),
    ];
    const bar = barsOf({ runs, warmUps: [] }).find(
      ({ claim }) => claim === '64 clients: requests/s, relative to Portkey’s',
    );
    return bar && boundOf(bar, { runs });
  };
  t.is(bound(2_000, 1), '');
  t.is(bound(100, 0.95), 'machine 95% busy; CPU, µs a request: ingress 60, redis 20');
  t.regex(bound(100, 0.5) ?? '', /^machine 50% busy/);
});
