import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import fc from 'fast-check';
import type { BatchRetry } from '../../../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../../../shared/errors.ts';
import { createBatchFeed, type MayQueue } from '../../../../workers/batches/scheduler/batch-feed.ts';
import { createModelHealth } from '../../../../workers/batches/scheduler/model-health.ts';
import { batchOf } from '../../../shared/store/batch-records.ts';
import { lineOf } from '../../../support/batch-client.ts';
import { batchPlan, lineRules } from '../../../support/batch-plan.ts';
import { memoryFiles } from '../../../support/memory-files.ts';
import { sized } from '../../../support/size.ts';

const rules = lineRules(batchPlan());
const modelNames = ['small-chat', 'medium-chat', 'large-chat', 'no-such-model'] as const;

type Step =
  | { step: 'next'; verdict: ReturnType<MayQueue>; passMs: number }
  | { step: 'news'; which: number; what: 'ended' | 'again' | 'started' | 'failed' | 'unqueued' }
  | { step: 'break' | 'take over' };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    step: fc.constant('next' as const),
    verdict: fc.constantFrom('yes', 'yes', 'yes', 'wait', 'pass over'),
    passMs: fc.constantFrom(0, 0, 100, 5_000),
  }),
  fc.record({
    step: fc.constant('news' as const),
    which: fc.nat(20),
    what: fc.constantFrom('ended', 'ended', 'ended', 'again', 'started', 'failed', 'unqueued'),
  }),
  fc.record({ step: fc.constantFrom('break' as const, 'take over' as const) }),
);

/** A batch on its way through feeds that come and go, beside what is known for certain of each of its lines. */
function openModel(lineModels: readonly string[]) {
  const texts = lineModels.map((model, index) => lineOf(`line ${index + 1}`, { model }));
  const begins = texts.map((_, index) => texts.slice(0, index).reduce((sum, text) => sum + text.length + 1, 0));
  const stored = { results: new Set<number>(), retries: new Map<number, BatchRetry>() };
  let batch = batchOf({ counts: { total: texts.length, completed: 0, failed: 0 } });
  const { files, fail } = memoryFiles({ [batch.inputFile]: texts.join('\n') }, () => checkPosition());
  let health = createModelHealth();
  let now = 1_000_000;
  let feed = open();

  function open() {
    const endedLines = [...stored.results].filter((line) => line >= batch.position.line);
    return createBatchFeed({ batch, endedLines, retries: [...stored.retries.values()], files, rules, health });
  }

  /** Whoever takes over begins there, so every line before it has to have its result; also while a file is read. */
  function checkPosition(): void {
    const { line, byte } = feed?.position() ?? batch.position;
    for (let before = 1; before < line; before++) {
      if (!stored.results.has(before)) throw new Error(`the position is ${line}, and line ${before} has no result`);
    }
    const begin = begins[line - 1];
    if (begin !== undefined && byte !== begin) throw new Error(`line ${line} begins at ${begin}, not ${byte}`);
    if (feed?.isDone() && stored.results.size < texts.length) throw new Error('it is not done');
  }

  function retryOf(line: number, change: Partial<BatchRetry>): BatchRetry {
    const known = stored.retries.get(line) ?? { number: 1, failures: 0, losses: 0 };
    return { batch: batch.id, line, ...known, notBefore: new Date(now), ...change };
  }

  async function next(verdict: ReturnType<MayQueue>): Promise<boolean> {
    const before = new Set(feed.inHand.keys());
    const line = await feed.next(now, () => verdict).catch(() => undefined);
    checkPosition();
    if (line === undefined) return false;
    if (stored.results.has(line.line)) throw new Error(`line ${line.line} has its result already`);
    if (before.has(line.line)) throw new Error(`line ${line.line} is in the queue already`);
    const number = stored.retries.get(line.line)?.number ?? 1;
    if (line.number !== number) throw new Error(`request ${line.number} of line ${line.line} is not ${number}`);
    if (verdict !== 'yes' && !('faults' in line)) throw new Error('nothing may be queued');
    if ('faults' in line) {
      stored.results.add(line.line);
      feed.ended(line.line);
    } else {
      if (line.customId !== `line ${line.line}`) throw new Error(`line ${line.line} is not "${line.customId}"`);
      feed.queued(line, now);
    }
    return true;
  }

  function tell(line: number, what: Extract<Step, { step: 'news' }>['what']): void {
    const model = feed.inHand.get(line)?.model ?? '';
    switch (what) {
      case 'ended':
        stored.results.add(line);
        feed.ended(line);
        health.answered(model);
        feed.wake(model, now);
        break;
      case 'failed':
      case 'again': {
        const retry = retryOf(line, { number: (stored.retries.get(line)?.number ?? 1) + 1 });
        const noted = { ...retry, failures: retry.failures + 1, notBefore: new Date(now + 2_000) };
        stored.retries.set(line, noted);
        for (let times = what === 'failed' ? 8 : 1; times > 0; times--) health.failed(model);
        feed.again(noted);
        break;
      }
      case 'unqueued':
        feed.again(retryOf(line, {}));
        break;
      case 'started':
        feed.changed(line, 'started', now);
    }
  }

  return {
    stored,
    async take(step: Step): Promise<void> {
      if (step.step === 'next') {
        now += step.passMs;
        await next(step.verdict);
      } else if (step.step === 'news') {
        const inHand = [...feed.inHand.keys()];
        const line = inHand[step.which % Math.max(1, inHand.length)];
        if (line !== undefined) tell(line, step.what);
      } else if (step.step === 'break') {
        fail(temporarilyUnavailable(new Error('the store is away')));
      } else {
        batch = { ...batch, position: feed.position() };
        await feed.close();
        health = createModelHealth();
        feed = open();
      }
      checkPosition();
    },
    /** Everything is well from here on, and every line in hand is answered. */
    async finish(): Promise<void> {
      for (let turns = 0; !feed.isDone(); turns++) {
        if (turns > 1_000) throw new Error(`it never ends; in hand are ${[...feed.inHand.keys()]}`);
        now += 3_000;
        while (await next('yes'));
        for (const line of [...feed.inHand.keys()]) tell(line, 'ended');
      }
    },
  };
}

test('whatever is heard, breaks and changes hands, every line ends, none is doubled, and none before the position is left', async (t) => {
  const anyFile = fc.array(fc.constantFrom(...modelNames), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(anyFile, fc.array(anyStep, { maxLength: 60 }), async (lineModels, steps) => {
      await nextTurn(); // other tests of this process wait for theirs
      const model = openModel(lineModels);
      for (const step of steps) await model.take(step);
      await model.finish();
      return model.stored.results.size === lineModels.length;
    }),
    { numRuns: sized(500) },
  );
  t.pass('no step was wrong');
});
