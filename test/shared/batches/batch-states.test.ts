import test from 'ava';
import fc from 'fast-check';
import { type Batch, type BatchState, batchErrorsMax, batchStates } from '../../../shared/batches/batch.ts';
import { type BatchEvent, isOver, isRunning, nextBatch } from '../../../shared/batches/batch-states.ts';
import { batchOf } from '../store/batch-records.ts';

const at = new Date('2026-12-05T10:11:12.345Z');
const usage = { promptTokens: 30, cachedTokens: 10, completionTokens: 20 };
const fault = { code: 'invalid_json', line: 3, param: null, message: 'not JSON' };

const events = {
  validated: { type: 'validated', total: 10, model: 'small-chat' },
  refused: { type: 'refused', errors: [fault] },
  counted: { type: 'counted', completed: 4, failed: 1, position: { line: 5, byte: 400 } },
  cancel: { type: 'cancel' },
  expire: { type: 'expire' },
  ran: { type: 'ran' },
  written: {
    type: 'written',
    completed: 9,
    failed: 1,
    usage,
    errorCounts: { batch_expired: 1 },
    outputFile: 'file-out',
    errorFile: 'file-err',
  },
  cleared: { type: 'cleared' },
} as const satisfies Record<BatchEvent['type'], BatchEvent>;

type Moves = Partial<Record<keyof typeof events, BatchState>>;

/** The allowed transitions. Any event that is not listed here changes nothing. */
const moves: Record<BatchState, Moves> = {
  validating: { validated: 'in_progress', refused: 'failed', cancel: 'cancelling', expire: 'finalizing' },
  in_progress: { counted: 'in_progress', cancel: 'cancelling', expire: 'finalizing', ran: 'finalizing' },
  finalizing: { counted: 'finalizing', written: 'completed' },
  cancelling: { counted: 'cancelling', written: 'cancelled' },
  failed: { cleared: 'failed' },
  completed: { cleared: 'completed' },
  expired: { cleared: 'expired' },
  cancelled: { cleared: 'cancelled' },
};

const endings: Partial<Record<BatchState, Batch['ending']>> = { finalizing: 'completed', cancelling: 'cancelled' };

function batchIn(state: BatchState): Batch {
  const ending = endings[state];
  return batchOf({ state, ...(ending && { ending }) });
}

for (const state of batchStates) {
  for (const [name, event] of Object.entries(events) as [keyof typeof events, BatchEvent][]) {
    const expected = moves[state][name];
    test(`${name} moves a batch that is ${state} to ${expected ?? 'no other state'}`, (t) => {
      const batch = batchIn(state);
      const before = structuredClone(batch);
      t.is(nextBatch(batch, event, at)?.state, expected);
      t.deepEqual(batch, before, 'the batch that was passed in is not changed');
    });
  }
}

test('each step sets its time and its results', (t) => {
  const step = (state: BatchState, name: keyof typeof events) => nextBatch(batchIn(state), events[name], at);
  t.like(step('validating', 'validated'), { inProgressAt: at, counts: { total: 10, completed: 0, failed: 0 } });
  t.like(step('validating', 'refused'), { failedAt: at, errors: [fault], open: true });
  t.like(step('validating', 'cancel'), { cancellingAt: at, ending: 'cancelled' });
  t.like(step('validating', 'expire'), { finalizingAt: at, ending: 'expired', inProgressAt: undefined });
  t.like(step('validating', 'validated'), { model: 'small-chat' });
  t.like(step('in_progress', 'counted'), { counts: { completed: 4, failed: 1 }, position: { line: 5, byte: 400 } });
  t.like(step('in_progress', 'cancel'), { cancellingAt: at, ending: 'cancelled' });
  t.like(step('in_progress', 'expire'), { finalizingAt: at, ending: 'expired' });
  t.like(step('in_progress', 'ran'), { finalizingAt: at, ending: 'completed' });
  const files = {
    outputFile: 'file-out',
    errorFile: 'file-err',
    counts: { completed: 9, failed: 1 },
    usage,
    errorCounts: { batch_expired: 1 },
    open: true,
  };
  t.like(step('finalizing', 'written'), { ...files, completedAt: at });
  t.like(step('cancelling', 'written'), { ...files, cancelledAt: at });
  t.like(step('completed', 'cleared'), { open: false });
  const expiring = batchOf({ state: 'finalizing', ending: 'expired' });
  t.like(nextBatch(expiring, events.written, at), { ...files, state: 'expired', expiredAt: at });
  t.is(nextBatch(batchOf({ state: 'finalizing' }), events.written, at), undefined, 'the ending is not decided yet');
});

test('a batch whose file was not validated expires without lines or files, and no late event reverts it', (t) => {
  const expiring = nextBatch(batchIn('validating'), events.expire, at);
  if (expiring === undefined) return t.fail('the batch must be able to expire');
  for (const late of [events.validated, events.refused, events.cancel]) t.is(nextBatch(expiring, late, at), undefined);
  const expired = nextBatch(expiring, { type: 'written', completed: 0, failed: 0, usage, errorCounts: {} }, at);
  t.like(expired, { state: 'expired', expiredAt: at, open: true, counts: { total: 0, completed: 0, failed: 0 } });
  t.false(expired === undefined || 'outputFile' in expired || 'errorFile' in expired || 'inProgressAt' in expired);
});

test('the batch does not name a file that was not written', (t) => {
  const next = nextBatch(
    batchIn('finalizing'),
    { type: 'written', completed: 0, failed: 0, usage, errorCounts: {} },
    at,
  );
  t.false(next === undefined || 'outputFile' in next || 'errorFile' in next);
});

test('only the documented number of faults is kept', (t) => {
  const errors = Array.from({ length: 3 * batchErrorsMax }, (_, index) => ({ ...fault, line: index + 1 }));
  t.deepEqual(
    nextBatch(batchIn('validating'), { type: 'refused', errors }, at)?.errors,
    errors.slice(0, batchErrorsMax),
  );
});

test('the first four states are not final, and lines run only in in_progress', (t) => {
  t.deepEqual(
    batchStates.filter((state) => isOver({ state })),
    ['failed', 'completed', 'expired', 'cancelled'],
  );
  t.deepEqual(
    batchStates.filter((state) => isRunning({ state })),
    ['in_progress'],
  );
});

const count = fc.nat(20);
const position = fc.record({ line: fc.integer({ min: 1, max: 20 }), byte: fc.nat() });
const anyEvent: fc.Arbitrary<BatchEvent> = fc.oneof(
  fc.record({ type: fc.constant('counted' as const), completed: count, failed: count, position }),
  fc.record({
    type: fc.constant('written' as const),
    completed: count,
    failed: count,
    usage: fc.constant(usage),
    errorCounts: fc.constant({}),
  }),
  fc.record({ type: fc.constant('validated' as const), total: count }),
  fc.constantFrom<BatchEvent>(events.refused, events.cancel, events.expire, events.ran, events.cleared),
);

test('for any sequence of events, counts and position only grow, times do not change, and a final state stays final', (t) => {
  const sequence = fc.array(anyEvent, { minLength: 1, maxLength: 30 });
  let moved = 0;
  const property = fc.property(sequence, (happening) => {
    let batch = batchOf({ state: 'validating' });
    for (const [index, event] of happening.entries()) {
      const next = nextBatch(batch, event, new Date(index + 1));
      if (next === undefined) continue;
      moved += 1;
      follows(batch, next);
      batch = next;
    }
    return true;
  });
  t.notThrows(() => fc.assert(property, { numRuns: 2_000 }));
  t.true(moved > 2_000);
});

const timeNames = [
  'createdAt',
  'inProgressAt',
  'finalizingAt',
  'completedAt',
  'failedAt',
  'expiredAt',
  'cancellingAt',
  'cancelledAt',
] as const satisfies (keyof Batch)[];

function follows(before: Batch, after: Batch): void {
  const wrong = [
    after.counts.completed < before.counts.completed,
    after.counts.failed < before.counts.failed,
    after.counts.total < before.counts.total,
    after.position.line < before.position.line,
    isOver(before) && (after.state !== before.state || after.counts !== before.counts),
    !isOver(after) && !after.open,
    ...timeNames.map((name) => before[name] !== undefined && after[name] !== before[name]),
    after.version !== before.version,
  ];
  if (wrong.includes(true)) throw new Error(`${before.state} to ${after.state}: ${wrong.indexOf(true)}`);
}
