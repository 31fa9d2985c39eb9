import test from 'ava';
import fc from 'fast-check';
import { followReply, notStarted, type Progress } from '../../../ingress/replies/follow-reply.ts';

type Entry = { run: number; sequence: number; kind: 'started' | 'chunk' | 'end' | 'error' };

const entry = (run: number, sequence: number, kind: Entry['kind'] = sequence === 0 ? 'started' : 'chunk'): Entry => ({
  run,
  sequence,
  kind,
});

/** Follows entries as they come until the request ends or is given up; what was accepted, and what ended it. */
function follow(entries: readonly Entry[]): { accepted: Entry[]; outcome: string } {
  let progress: Progress = notStarted;
  const accepted: Entry[] = [];
  for (const reply of entries) {
    const step = followReply(progress, reply);
    if (step.outcome === 'ignore') continue;
    if (step.outcome !== 'accept') return { accepted, outcome: step.outcome };
    progress = step.progress;
    accepted.push(reply);
    if (reply.kind === 'end' || reply.kind === 'error') return { accepted, outcome: reply.kind };
  }
  return { accepted, outcome: 'waiting' };
}

test('each step from each standing', (t) => {
  const fresh = notStarted;
  const started: Progress = { run: 2, nextSequence: 1, delivered: false };
  const delivered: Progress = { run: 2, nextSequence: 2, delivered: true };
  const steps: [string, Progress, Entry, Progress | 'ignore' | 'gap' | 'interrupted'][] = [
    ['the first run begins', fresh, entry(1, 0), { run: 1, nextSequence: 1, delivered: false }],
    ['a later run is the first seen', fresh, entry(3, 0), { run: 3, nextSequence: 1, delivered: false }],
    ['a run that refuses at once', fresh, entry(1, 0, 'error'), { run: 1, nextSequence: 1, delivered: false }],
    ['the beginning was lost', fresh, entry(1, 1), 'gap'],
    ['text comes', started, entry(2, 1), { run: 2, nextSequence: 2, delivered: true }],
    ['an answer comes whole', started, entry(2, 1, 'end'), { run: 2, nextSequence: 2, delivered: false }],
    ['an entry is missing before this one', started, entry(2, 2), 'gap'],
    ['an entry comes again', started, entry(2, 0), 'ignore'],
    ['an entry comes again after text', delivered, entry(2, 1), 'ignore'],
    ['a run before still speaks', started, entry(1, 1), 'ignore'],
    ['a run before ends', delivered, entry(1, 2, 'end'), 'ignore'],
    ['a new run begins before any text', started, entry(3, 0), { run: 3, nextSequence: 1, delivered: false }],
    ['the beginning of a new run was lost', started, entry(3, 1), 'gap'],
    ['a new run begins after text', delivered, entry(3, 0), 'interrupted'],
    ['a new run fails after text', delivered, entry(3, 0, 'error'), 'interrupted'],
    ['the text goes on', delivered, entry(2, 2), { run: 2, nextSequence: 3, delivered: true }],
  ];
  for (const [title, progress, reply, expected] of steps) {
    const step = typeof expected === 'string' ? { outcome: expected } : { outcome: 'accept', progress: expected };
    t.deepEqual(followReply(progress, reply) as unknown, step, title);
  }
});

test('a run that another takes over before any text is forgotten', (t) => {
  const { accepted, outcome } = follow([entry(1, 0), entry(2, 0), entry(1, 1), entry(2, 1), entry(2, 2, 'end')]);
  t.deepEqual(accepted, [entry(1, 0), entry(2, 0), entry(2, 1), entry(2, 2, 'end')]);
  t.is(outcome, 'end');
});

/** All that one run says: that it started, its text in so many pieces, its end. */
const wholeRun = (run: number, chunks: number): Entry[] => [
  entry(run, 0),
  ...Array.from({ length: chunks }, (_, index) => entry(run, index + 1)),
  entry(run, chunks + 1, 'end'),
];

/** The entries of two runs in any order, any of them lost, and any of them as often as one likes. */
const mixedRuns = fc
  .tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 }))
  .map((chunks) => ({ chunks, entries: [...wholeRun(1, chunks[0]), ...wholeRun(2, chunks[1])] }))
  .chain(({ chunks, entries }) =>
    fc.record({
      chunks: fc.constant(chunks),
      entries: fc.array(fc.constantFrom(...entries), { minLength: 1, maxLength: 30 }),
    }),
  );

/** The same as it mostly happens: each run in its order, the two interleaved, few lost and few twice. */
const interleavedRuns = fc
  .tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 }), fc.infiniteStream(fc.nat(19)))
  .map(([one, other, choices]) => {
    const waiting = [wholeRun(1, one), wholeRun(2, other)];
    const entries: Entry[] = [];
    for (const choice of choices) {
      const queue = waiting[choice % 2]?.length ? waiting[choice % 2] : waiting[(choice + 1) % 2];
      const next = queue?.shift();
      if (next === undefined) break;
      if (choice !== 0) entries.push(next);
      if (choice === 1) entries.push(next);
    }
    return { chunks: [one, other] as [number, number], entries };
  });

test('text of two runs is never mixed, nor out of order, twice or with a hole, however their entries come', (t) => {
  const outcomes = new Map<string, number>();
  fc.assert(
    fc.property(fc.oneof(mixedRuns, interleavedRuns), ({ chunks, entries }) => {
      const { accepted, outcome } = follow(entries);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      const text = accepted.filter(({ kind }) => kind === 'chunk');
      t.true(new Set(text.map(({ run }) => run)).size <= 1, 'one run');
      t.deepEqual(
        text.map(({ sequence }) => sequence),
        text.map((_, index) => index + 1),
      );
      const end = accepted.find(({ kind }) => kind === 'end');
      if (end === undefined) return;
      t.is(text.length, chunks[end.run - 1] ?? -1, 'what ends was delivered whole');
      t.true(text.every(({ run }) => run === end.run));
    }),
    { numRuns: 3_000 },
  );
  // What is said above was tried in every way that a request can go.
  for (const outcome of ['end', 'gap', 'interrupted', 'waiting']) t.true((outcomes.get(outcome) ?? 0) > 20, outcome);
});

test('any run whose entries all come in order is delivered, whatever a run before it still says', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 }), fc.array(fc.nat(5)), (chunks, late) => {
      const second = wholeRun(2, chunks);
      const entries = second.flatMap((reply, index) => [reply, entry(1, late[index] ?? 0)]);
      const { accepted, outcome } = follow([entry(1, 0), ...entries]);
      t.is(outcome, 'end');
      t.deepEqual(accepted, [entry(1, 0), ...second]);
    }),
  );
});
