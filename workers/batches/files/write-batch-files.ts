import type { Batch, BatchResult, StoredFile } from '../../../shared/batches/batch.ts';
import type { BatchEvent } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/store.ts';
import { resultFileOf, resultIdOf } from '../lines/ids.ts';

type Written = Extract<BatchEvent, { type: 'written' }>;
type Kind = 'output' | 'error';

/** Few, for each may be as large as an answer may be. */
const resultsAtOnce = 16;
const blockCharacters = 262_144;
const dayMs = 86_400_000;

/**
 * Writes the output and the error file of a batch from its results, in order of its lines, one line each; a file that
 * would be empty is not written. Their ids are the batch's own, so that whoever is here a second time writes the same, or finds
 * it done. Fails as the store does, and with the reason of `signal`.
 */
export function createWriteBatchFiles({
  store,
  filesKeptDays,
}: {
  store: Pick<Store, 'batches' | 'files'>;
  filesKeptDays: number;
}) {
  return async function writeBatchFiles(
    batch: Batch,
    { now, signal }: { now: number; signal: AbortSignal },
  ): Promise<Written> {
    const { completed, failed } = await store.batches.countResults(batch.id);
    const outputFile = completed > 0 ? await write(batch, 'output', { now, signal, lines: completed }) : undefined;
    const errorFile = failed > 0 ? await write(batch, 'error', { now, signal, lines: failed }) : undefined;
    return { type: 'written', completed, failed, ...(outputFile && { outputFile }), ...(errorFile && { errorFile }) };
  };

  async function write(
    batch: Batch,
    kind: Kind,
    { now, signal, lines }: { now: number; signal: AbortSignal; lines: number },
  ): Promise<string> {
    const id = resultFileOf(batch.id, kind);
    const known = await store.batches.findFile(id);
    if (known?.state === 'ready') return id;
    const file: StoredFile = {
      ...{ id, account: batch.account, filename: `${batch.id}_${kind}.jsonl`, purpose: 'batch_output' },
      ...{ state: 'writing', bytes: 0, lines: 0, tokens: 0 },
      createdAt: new Date(now),
      expiresAt: new Date(now + filesKeptDays * dayMs),
    };
    // One that was begun long ago is begun anew, or it would be taken for one that nobody writes any more.
    if (!(await store.batches.insertFile(file))) {
      await store.batches.changeFile(id, 'writing', { createdAt: file.createdAt, expiresAt: file.expiresAt });
    }
    const bytes = await store.files.write(id, blocks(batch.id, kind, { signal, lines }));
    const isReady = await store.batches.changeFile(id, 'writing', { state: 'ready', bytes, lines });
    if (!isReady && (await store.batches.findFile(id))?.state !== 'ready')
      throw new Error(`${id} was removed meanwhile`);
    return id;
  }

  /**
   * Fails where the results are not all there: another worker may have written the file and cleared up meanwhile, and what
   * ends early must not take the place of what it wrote.
   */
  async function* blocks(
    batch: string,
    kind: Kind,
    { signal, lines }: { signal: AbortSignal; lines: number },
  ): AsyncGenerator<Uint8Array> {
    let left = lines;
    let text = '';
    for await (const result of results(batch)) {
      signal.throwIfAborted();
      if (result.failed !== (kind === 'error')) continue;
      text += presentLine(result);
      left--;
      if (text.length < blockCharacters) continue;
      yield Buffer.from(text);
      text = '';
    }
    if (left !== 0) throw new Error(`${left} results of ${batch} are missing`);
    if (text !== '') yield Buffer.from(text);
  }

  async function* results(batch: string): AsyncGenerator<BatchResult> {
    for (let after = 0; ; ) {
      const page = await store.batches.listResults(batch, { after, limit: resultsAtOnce });
      yield* page;
      const last = page.at(-1);
      if (last === undefined) return;
      after = last.line;
    }
  }
}

/** One line of an output or error file, its line feed included. */
export function presentLine({ batch, line, customId, requestId, status, body, error }: BatchResult): string {
  const head = JSON.stringify({ id: resultIdOf(batch, line), custom_id: customId }).slice(0, -1);
  // As the backend wrote it, but for its line breaks: in JSON they stand between values only.
  const answer = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body?.replace(/[\r\n]+/g, ' ')}}`;
  return `${head},"response":${body === null ? 'null' : answer},"error":${JSON.stringify(error)}}\n`;
}
