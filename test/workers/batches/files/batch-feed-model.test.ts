import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import fc from 'fast-check';
import type { BatchRetry } from '../../../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../../../shared/errors.ts';
import {
  createBatchFeed,
  isRefused,
  type MayQueue,
  type NextLine,
} from '../../../../workers/batches/files/batch-feed.ts';
import { createReadAhead } from '../../../../workers/batches/files/ordered-lines.ts';
import { batchOf } from '../../../shared/store/batch-records.ts';
import { lineOf } from '../../../support/batch-client.ts';
import { batchPlan, lineRules } from '../../../support/batch-plan.ts';
import { memoryFiles } from '../../../support/memory-files.ts';
import { sized } from '../../../support/size.ts';

/** Three beginnings of prompts, in no order. */
const affinityOf = (_endpoint: unknown, request: object) => ({
  keys: [`key ${JSON.stringify(request).length % 3}`],
  isFirstTurn: true,
});
const rules = { ...lineRules(batchPlan()), affinityOf };
const modelNames = ['small-chat', 'medium-chat', 'large-chat', 'no-such-model'] as const;

type Step =
  | { step: 'next'; verdict: ReturnType<MayQueue>; passMs: number }
  | { step: 'event'; which: number; type: 'ended' | 'retry' | 'not queued' }
  | { step: 'break' | 'take over' };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    step: fc.constant('next' as const),
    verdict: fc.constantFrom('yes', 'yes', 'yes', 'wait', 'skip', 'probe'),
    passMs: fc.constantFrom(0, 0, 100, 5_000),
  }),
  fc.record({
    step: fc.constant('event' as const),
    which: fc.nat(20),
    type: fc.constantFrom('ended', 'ended', 'retry', 'not queued'),
  }),
  fc.record({ step: fc.constantFrom('break' as const, 'take over' as const) }),
);

/** A batch that passes from one feed to the next, and the facts about each of its lines. */
function openModel(lineModels: readonly string[]) {
  const texts = lineModels.map((model, index) => lineOf(`line ${index + 1}`, { model }));
  const begins = texts.map((_, index) => texts.slice(0, index).reduce((sum, text) => sum + text.length + 1, 0));
  const stored = { results: new Set<number>(), retries: new Map<number, BatchRetry>() };
  let batch = batchOf({ counts: { total: texts.length, completed: 0, failed: 0 } });
  const { files, fail } = memoryFiles({ [batch.inputFile]: texts.join('\n') }, () => checkPosition());
  const inProgress = new Map<number, NextLine>();
  let now = 1_000_000;
  let feed = open();

  function open() {
    const endedLines = [...stored.results].filter((line) => line >= batch.position.line);
    const retries = [...stored.retries.values()];
    return createBatchFeed({ batch, endedLines, retries, files, rules: () => rules, readAhead: createReadAhead() });
  }

  /** The next worker begins at the position, so every line before it must have its result, also while a file is read. */
  function checkPosition(): void {
    const { line, byte } = feed?.position() ?? batch.position;
    for (let before = 1; before < line; before++) {
      if (!stored.results.has(before)) throw new Error(`the position is ${line}, and line ${before} has no result`);
    }
    const begin = begins[line - 1];
    if (begin !== undefined && byte !== begin) throw new Error(`line ${line} begins at ${begin}, not ${byte}`);
    if (feed?.isDone() && stored.results.size < texts.length)
      throw new Error('the feed is done, but lines have no result');
  }

  function retryOf(line: number, change: Partial<BatchRetry>): BatchRetry {
    const known = stored.retries.get(line) ?? { number: 1, failures: 0, losses: 0 };
    return { batch: batch.id, line, ...known, notBefore: new Date(now), ...change };
  }

  async function next(verdict: ReturnType<MayQueue>): Promise<boolean> {
    const line = await feed.next(now, () => verdict).catch(() => undefined);
    checkPosition();
    if (line === undefined) return false;
    if (stored.results.has(line.line)) throw new Error(`line ${line.line} has its result already`);
    if (inProgress.has(line.line)) throw new Error(`line ${line.line} is in the queue already`);
    const number = stored.retries.get(line.line)?.number ?? 1;
    if (line.number !== number) throw new Error(`request ${line.number} of line ${line.line} is not ${number}`);
    if (verdict !== 'yes' && verdict !== 'probe' && !isRefused(line)) throw new Error('no line may be queued');
    if (isRefused(line)) {
      stored.results.add(line.line);
      feed.ended(line.line);
    } else {
      if (line.customId !== `line ${line.line}`) throw new Error(`line ${line.line} is not "${line.customId}"`);
      inProgress.set(line.line, line);
    }
    return true;
  }

  function send(line: number, type: Extract<Step, { step: 'event' }>['type']): void {
    const { model } = inProgress.get(line)?.call ?? { model: '' };
    inProgress.delete(line);
    switch (type) {
      case 'ended':
        stored.results.add(line);
        feed.ended(line);
        feed.wake(model, now);
        break;
      case 'retry': {
        const retry = retryOf(line, { number: (stored.retries.get(line)?.number ?? 1) + 1 });
        const recorded = { ...retry, failures: retry.failures + 1, notBefore: new Date(now + 2_000) };
        stored.retries.set(line, recorded);
        feed.retry(recorded);
        break;
      }
      case 'not queued':
        feed.retry(retryOf(line, {}));
    }
  }

  return {
    stored,
    async take(step: Step): Promise<void> {
      if (step.step === 'next') {
        now += step.passMs;
        await next(step.verdict);
      } else if (step.step === 'event') {
        const lines = [...inProgress.keys()];
        const line = lines[step.which % Math.max(1, lines.length)];
        if (line !== undefined) send(line, step.type);
      } else if (step.step === 'break') {
        fail(temporarilyUnavailable(new Error('the store is unavailable')));
      } else {
        batch = { ...batch, position: feed.position() };
        await feed.close();
        inProgress.clear();
        feed = open();
      }
      checkPosition();
    },
    /** From here on nothing fails, and every line in progress is answered. */
    async finish(): Promise<void> {
      for (let turns = 0; !feed.isDone(); turns++) {
        if (turns > 1_000) throw new Error(`it never ends; in progress are ${[...inProgress.keys()]}`);
        now += 3_000;
        while (await next('yes'));
        for (const line of [...inProgress.keys()]) send(line, 'ended');
      }
    },
  };
}

test('after any events, failures and changes of worker, every line ends once, and none is left before the position', async (t) => {
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
  t.pass();
});
