import test from 'ava';
import fc from 'fast-check';
import { followReply, notStarted, type Progress } from '../../../ingress/replies/waiting-request.ts';

type Entry = { run: number; sequence: number; kind: 'started' | 'chunk' | 'end' | 'error' };

const entry = (run: number, sequence: number, kind: Entry['kind'] = sequence === 0 ? 'started' : 'chunk'): Entry => ({
  run,
  sequence,
  kind,
});

/** Follows entries until the request ends or is given up; returns the accepted entries and the end. */
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

test('each entry in each state', (t) => {
  const fresh = notStarted;
  const started: Progress = { run: 2, nextSequence: 1, delivered: false };
  const delivered: Progress = { run: 2, nextSequence: 2, delivered: true };
  const steps: [string, Progress, Entry, Progress | 'ignore' | 'gap' | 'interrupted'][] = [
    ['the first run starts', fresh, entry(1, 0), { run: 1, nextSequence: 1, delivered: false }],
    ['a later run is the first seen', fresh, entry(3, 0), { run: 3, nextSequence: 1, delivered: false }],
    ['a run that refuses immediately', fresh, entry(1, 0, 'error'), { run: 1, nextSequence: 1, delivered: false }],
    ['the start was lost', fresh, entry(1, 1), 'gap'],
    ['text comes', started, entry(2, 1), { run: 2, nextSequence: 2, delivered: true }],
    ['a complete answer', started, entry(2, 1, 'end'), { run: 2, nextSequence: 2, delivered: false }],
    ['an entry is missing before this one', started, entry(2, 2), 'gap'],
    ['a repeated entry', started, entry(2, 0), 'ignore'],
    ['a repeated entry after text', delivered, entry(2, 1), 'ignore'],
    ['an earlier run still sends', started, entry(1, 1), 'ignore'],
    ['an earlier run ends', delivered, entry(1, 2, 'end'), 'ignore'],
    ['a new run starts before any text', started, entry(3, 0), { run: 3, nextSequence: 1, delivered: false }],
    ['the start of a new run was lost', started, entry(3, 1), 'gap'],
    ['a new run starts after text', delivered, entry(3, 0), 'interrupted'],
    ['a new run fails after text', delivered, entry(3, 0, 'error'), 'interrupted'],
    ['the text continues', delivered, entry(2, 2), { run: 2, nextSequence: 3, delivered: true }],
  ];
  for (const [title, progress, reply, expected] of steps) {
    const step = typeof expected === 'string' ? { outcome: expected } : { outcome: 'accept', progress: expected };
    t.deepEqual(followReply(progress, reply) as unknown, step, title);
  }
});

test('a run that another one replaces before any text is ignored', (t) => {
  const { accepted, outcome } = follow([entry(1, 0), entry(2, 0), entry(1, 1), entry(2, 1), entry(2, 2, 'end')]);
  t.deepEqual(accepted, [entry(1, 0), entry(2, 0), entry(2, 1), entry(2, 2, 'end')]);
  t.is(outcome, 'end');
});

/** All entries of one run: its start, its text in chunks, its end. */
const wholeRun = (run: number, chunks: number): Entry[] => [
  entry(run, 0),
  ...Array.from({ length: chunks }, (_, index) => entry(run, index + 1)),
  entry(run, chunks + 1, 'end'),
];

/** The entries of two runs in any order, with any losses and repetitions. */
const mixedRuns = fc
  .tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 }))
  .map((chunks) => ({ chunks, entries: [...wholeRun(1, chunks[0]), ...wholeRun(2, chunks[1])] }))
  .chain(({ chunks, entries }) =>
    fc.record({
      chunks: fc.constant(chunks),
      entries: fc.array(fc.constantFrom(...entries), { minLength: 1, maxLength: 30 }),
    }),
  );

/** The usual case: each run in order, both interleaved, few entries lost and few repeated. */
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

test('in any order of entries, text of two runs is never mixed, out of order, repeated or with a gap', (t) => {
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
      t.is(text.length, chunks[end.run - 1] ?? -1, 'a text that ends was delivered completely');
      t.true(text.every(({ run }) => run === end.run));
    }),
    { numRuns: 3_000 },
  );
  // All outcomes of a request have occurred above.
  for (const outcome of ['end', 'gap', 'interrupted', 'waiting']) t.true((outcomes.get(outcome) ?? 0) > 20, outcome);
});

test('a run whose entries all arrive in order is delivered, even if an earlier run still sends', (t) => {
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
