import { createHash } from 'node:crypto';
import { type Batch, type BatchError, batchErrorsMax } from '../../../shared/batches/batch.ts';
import type { BatchEvent } from '../../../shared/batches/batch-states.ts';
import { FileGone, readLines } from '../../../shared/batches/split-lines.ts';
import { createRests, type Rest } from '../../../shared/concurrency/in-turn.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { countRefusedFields, type LimitMetrics } from '../../../shared/process/metrics.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type LineRules, parseLine } from './parse-line.ts';

type Verdict = Extract<BatchEvent, { type: 'validated' | 'refused' }>;

/** Validation blocks the event loop no longer than this, unless one line takes longer. */
const busyMs = 10;

/**
 * Reads the file of a batch and decides whether it can run (contract.md#f2-input-files). Lines whose bodies are refused run, too: each ends
 * with its error. Reports at most the first hundred faults. Fails as the store does, and with the reason of `signal`. A line can take 0.1
 * s, so all validations together rest between lines.
 */
export function createValidateBatch(deps: {
  store: Pick<Store, 'batches' | 'files'>;
  currentPlanFile: () => Pick<PlanFile, 'batch'>;
  rules: () => LineRules;
  metrics: Pick<LimitMetrics, 'refusedFields'>;
  rest?: Rest;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
}) {
  const { store, currentPlanFile, metrics, rest = createRests(), now = () => performance.now() } = deps;

  return async function validateBatch(batch: Batch, signal: AbortSignal): Promise<Verdict> {
    const file = await store.batches.findFile(batch.inputFile);
    // Its deletion has not yet checked for batches with this input. The file becomes ready again, or is removed.
    if (file?.state === 'deleting') throw new Error('the file is being deleted');
    if (file?.state !== 'ready' || file.account !== batch.account) return refuse([missing]);
    try {
      return await validateLines(batch, signal);
    } catch (error) {
      if (error instanceof FileGone) return refuse([missing]);
      throw error;
    }
  };

  async function validateLines(batch: Batch, signal: AbortSignal): Promise<Verdict> {
    const errors: BatchError[] = [];
    const known = new Map<string, number>();
    const models = new Set<string>();
    const rules = { ...deps.rules(), endpoint: batch.endpoint };
    const { requestsMax } = currentPlanFile().batch;
    let total = 0;
    let workMs = 0;
    for await (const line of readLines(store.files, batch.inputFile, { line: 1, byte: 0 })) {
      signal.throwIfAborted();
      if (++total > requestsMax) {
        errors.push({
          ...wholeLine,
          code: 'too_many_lines',
          line: line.number,
          message: `more than ${requestsMax} requests`,
        });
        break;
      }
      const since = now();
      const read = parseLine(line, rules);
      workMs += now() - since;
      if ('faults' in read) errors.push(...read.faults);
      else {
        if ('refused' in read) countRefusedFields(metrics, rules.endpoint, read.refused);
        else models.add(read.parsed.call.model);
        errors.push(...checkName(line.number, 'refused' in read ? read : read.parsed, known));
      }
      if (errors.length >= batchErrorsMax) break;
      if (workMs < busyMs) continue;
      await rest(workMs);
      workMs = 0;
    }
    if (total === 0) errors.push({ ...wholeLine, code: 'empty_file', line: null, message: 'the file has no lines' });
    if (errors.length > 0) return refuse(errors.slice(0, batchErrorsMax));
    const [model] = models;
    return { type: 'validated', total, ...(model !== undefined && models.size === 1 && { model }) };
  }
}

/** Keeps a digest of each name, because names may be long, and there may be fifty thousand of them. */
function checkName(line: number, { customId }: { customId: string }, known: Map<string, number>): BatchError[] {
  const digest = createHash('sha256').update(customId).digest('base64').slice(0, 22);
  const first = known.get(digest);
  if (first === undefined) {
    known.set(digest, line);
    return [];
  }
  return [{ code: 'duplicate_custom_id', line, param: 'custom_id', message: `is that of line ${first} as well` }];
}

const wholeLine = { param: null };

const missing: BatchError = {
  code: 'file_not_found',
  line: null,
  param: 'input_file_id',
  message: 'the file was deleted',
};

function refuse(errors: BatchError[]): Verdict {
  return { type: 'refused', errors };
}
