import type { Batch, BatchResult, BatchUsage, ErrorCounts, StoredFile } from '../../../shared/batches/batch.ts';
import { countError } from '../../../shared/batches/batch-progress.ts';
import { moveBytesToFiles } from '../../../shared/batches/batch-room.ts';
import type { BatchEvent } from '../../../shared/batches/batch-states.ts';
import { nextTurn } from '../../../shared/concurrency/in-turn.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { resultFileOf } from '../lines/batch-job.ts';
import { presentLine } from '../lines/line-results.ts';

type WrittenEvent = Extract<BatchEvent, { type: 'written' }>;
type Kind = 'output' | 'error';
type WrittenFile = Pick<StoredFile, 'id' | 'bytes' | 'lines'>;

/** Few, because each may be as large as an answer may be. */
const resultsAtOnce = 16;
const blockCharacters = 262_144;
const usageNames = ['promptTokens', 'cachedTokens', 'completionTokens'] as const;
const dayMs = 86_400_000;

/**
 * Writes the output file and the error file of a batch: one line for each result, in the order of the input. An empty file is not written.
 * The ids derive from the batch, so a second call writes the same files, or finds them written. The results count for the account until
 * all bytes are written, and the files from when they are ready, so nothing counts twice (contract.md#ho6-room-of-accounts).
 * Fails as the store does, and with the reason of `signal`.
 */
export function createWriteBatchFiles({
  store,
  filesKeptDays,
}: {
  store: Pick<Store, 'batches' | 'files'>;
  filesKeptDays: () => number;
}) {
  return async function writeBatchFiles(
    batch: Batch,
    { now, signal }: { now: number; signal: AbortSignal },
  ): Promise<WrittenEvent> {
    const { completed, failed } = await store.batches.countResults(batch.id);
    const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
    const errorCounts: ErrorCounts = {};
    const options = { now, signal, usage, errorCounts };
    const output = completed > 0 ? await write(batch, 'output', { ...options, lines: completed }) : undefined;
    const error = failed > 0 ? await write(batch, 'error', { ...options, lines: failed }) : undefined;
    await store.batches.changeRoom(batch.account, moveBytesToFiles(batch.id));
    if (output !== undefined) await makeReady(output);
    if (error !== undefined) await makeReady(error);
    const files = { ...(output && { outputFile: output.id }), ...(error && { errorFile: error.id }) };
    return { type: 'written', completed, failed, usage, errorCounts, ...files };
  };

  /** Writes the bytes of a file. Its record does not say yet that it is ready, unless it was before. */
  async function write(
    batch: Batch,
    kind: Kind,
    { now, ...reading }: Pick<WriteOptions, 'signal' | 'lines' | 'usage' | 'errorCounts'> & { now: number },
  ): Promise<WrittenFile> {
    const id = resultFileOf(batch.id, kind);
    const wanted = { batch: batch.id, kind, ...reading };
    const known = await store.batches.findFile(id);
    if (known?.state === 'ready') {
      for await (const _ of blocks(store, wanted)); // for the usage and the errors
      return known;
    }
    const file: StoredFile = {
      id,
      account: batch.account,
      keyId: batch.keyId,
      filename: `${batch.id}_${kind}.jsonl`,
      purpose: 'batch_output',
      state: 'writing',
      bytes: 0,
      lines: 0,
      tokens: 0,
      createdAt: new Date(now),
      expiresAt: new Date(
        now + Math.min(filesKeptDays() * dayMs, (batch.outputSeconds ?? Number.POSITIVE_INFINITY) * 1_000),
      ),
    };
    // A file that was started long ago gets new times. Otherwise it would be removed as abandoned.
    if (!(await store.batches.insertFile(file))) {
      await store.batches.changeFile(id, 'writing', { createdAt: file.createdAt, expiresAt: file.expiresAt });
    }
    return { id, bytes: await store.files.write(id, blocks(store, wanted)), lines: reading.lines };
  }

  async function makeReady({ id, bytes, lines }: WrittenFile): Promise<void> {
    const isReady = await store.batches.changeFile(id, 'writing', { state: 'ready', bytes, lines });
    if (!isReady && (await store.batches.findFile(id))?.state !== 'ready')
      throw new Error(`${id} was removed meanwhile`);
  }
}

type WriteOptions = {
  batch: string;
  kind: Kind;
  lines: number;
  signal: AbortSignal;
  usage: BatchUsage;
  errorCounts: ErrorCounts;
};

/**
 * Formats the results of one kind, and adds their tokens to `usage` and their errors to `errorCounts`. Fails if results are missing:
 * another worker may have written the file and cleared the batch, and a shorter file must not replace it.
 */
async function* blocks(
  store: Pick<Store, 'batches'>,
  { batch, kind, lines, signal, usage, errorCounts }: WriteOptions,
): AsyncGenerator<Uint8Array> {
  let left = lines;
  let text = '';
  for await (const result of results(store, batch)) {
    signal.throwIfAborted();
    if (result.failed !== (kind === 'error')) continue;
    text += presentLine(result);
    for (const name of usageNames) usage[name] += result[name];
    if (result.failed) countError(errorCounts, result);
    left--;
    if (text.length < blockCharacters) continue;
    yield Buffer.from(text);
    text = '';
  }
  if (left !== 0) throw new Error(`${left} results of ${batch} are missing`);
  if (text !== '') yield Buffer.from(text);
}

async function* results(store: Pick<Store, 'batches'>, batch: string): AsyncGenerator<BatchResult> {
  for (let after = 0; ; ) {
    const page = await store.batches.listResults(batch, { after, limit: resultsAtOnce });
    yield* page;
    await nextTurn();
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.line;
  }
}
