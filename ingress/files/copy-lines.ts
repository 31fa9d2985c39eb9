import { ulid } from 'ulid';
import { z } from 'zod';
import { type Batch, resultIdOf, type StoredFile } from '../../shared/batches/batch.ts';
import { FileGone, readLines } from '../../shared/batches/split-lines.ts';
import { createRests } from '../../shared/concurrency/in-turn.ts';
import { ApiError, validationError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { removeUnusedFile } from '../../shared/store/records/batch-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { createTidy, requireRoom } from './account-room.ts';
import { daySeconds, keptSecondsMin } from './read-form.ts';
import { receiveFile } from './receive-file.ts';

export type RetriedLines = NonNullable<Batch['retryLines']>;

/** `input` is the file of the batch. `now`: Redis's time, in milliseconds. */
type Copy = {
  batch: Batch & { errorFile: string };
  input: StoredFile;
  lines: RetriedLines;
  caller: Caller;
  now: number;
  limits: PlanFile['batch'];
};

/** The new file is kept for an hour, unless its batch is created. */
type CopiedFile = { file: StoredFile; keep(): Promise<void>; discard(): Promise<void> };

export type CopyLines = (copy: Copy) => Promise<CopiedFile>;

type Deps = { store: Pick<Store, 'batches' | 'files'>; giveUp: AbortSignal; log: Log; copiesMax?: number };

const retryAfterMs = 1_000;
const start = { line: 1, byte: 0 };

/**
 * Writes a new input file with those lines of an ended batch that are wanted, in their order, each byte for byte. It holds one line and the
 * ids of the lines that failed. Fails with `NOT_FOUND` if the input file or the error file is gone, with `VALIDATION_ERROR` if the error
 * file has no such line, with `SERVICE_UNAVAILABLE` while many files are copied, and as an upload does for an account without room.
 */
export function createCopyLines({ store, giveUp, log, copiesMax = 4 }: Deps): CopyLines {
  const tidy = createTidy({ store: store.batches });
  const rest = createRests();
  let copies = 0;

  async function copy(wanted: Copy): Promise<CopiedFile> {
    const { batch, input, lines, caller, now, limits } = wanted;
    const ids = await failedIds(store, batch.errorFile, lines);
    if (ids.size === 0) throw noSuchLine(lines);
    const coming = {
      id: `file-${ulid(now)}`,
      account: caller.account,
      ...(caller.keyId !== undefined && { keyId: caller.keyId }),
      createdAt: new Date(now),
      expiresAt: new Date(now + limits.filesKeptDays * daySeconds * 1_000),
    };
    const of = { store: store.batches, tidy, account: caller.account, limits, now };
    await requireRoom(of, { bytes: 0 });
    const { requestsMax } = limits;
    const room = { announced: input.bytes, requireRoom: () => requireRoom(of) };
    const reception = receiveFile(coming, { store, requestsMax, ...room, log, rest });
    try {
      const taken = await reception.take(`${batch.id}_retry.jsonl`, copied(store, { batch, ids, giveUp }));
      const file = await reception.keep(taken, keptSecondsMin);
      return {
        file,
        keep: async () => void (await store.batches.changeFile(file.id, 'ready', { expiresAt: coming.expiresAt })),
        discard: async () => void (await removeUnusedFile(store, file.id)),
      };
    } catch (error) {
      await reception.discard();
      throw error;
    }
  }

  return async function copyLines(wanted) {
    if (copies >= copiesMax)
      throw new ApiError('SERVICE_UNAVAILABLE', 'Too many files are being written. Retry.', { retryAfterMs });
    copies++;
    try {
      return await copy(wanted);
    } catch (error) {
      throw error instanceof FileGone ? fileGone() : error;
    } finally {
      copies--;
    }
  };
}

export function noSuchLine(lines: RetriedLines): ApiError {
  const what = { failed: 'has failed', unfinished: 'was left unfinished', all: 'has failed or was left unfinished' };
  return validationError([{ path: 'lines', message: `no line of this batch ${what[lines]}` }]);
}

export function fileGone(): ApiError {
  return new ApiError('NOT_FOUND', 'The input file or the error file of this batch was deleted.');
}

const errorLine = z.object({ id: z.string(), error: z.object({ code: z.string() }).nullable() });
/** The codes of lines that were not run to their end (contract.md#f4-results). */
const unfinishedCodes = ['batch_expired', 'batch_cancelled'];

/** The ids of these lines, by the error file. */
async function failedIds(store: Pick<Store, 'files'>, file: string, wanted: RetriedLines): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const { bytes } of readLines(store.files, file, start)) {
    if (bytes === undefined) throw new Error(`${file} has a line that is too long`);
    const { id, error } = errorLine.parse(JSON.parse(bytes.toString()));
    const isUnfinished = unfinishedCodes.includes(error?.code ?? '');
    if (wanted === 'all' || isUnfinished === (wanted === 'unfinished')) ids.add(id);
  }
  return ids;
}

const blockBytes = 65_536;
const lineFeed = Buffer.from('\n');

async function* copied(
  store: Pick<Store, 'files'>,
  { batch, ids, giveUp }: { batch: Batch; ids: ReadonlySet<string>; giveUp: AbortSignal },
): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let length = 0;
  for await (const { number, bytes } of readLines(store.files, batch.inputFile, start)) {
    giveUp.throwIfAborted();
    if (bytes === undefined || !ids.has(resultIdOf(batch.id, number))) continue;
    parts.push(bytes, lineFeed);
    length += bytes.length + 1;
    if (length < blockBytes) continue;
    yield Buffer.concat(parts);
    [parts, length] = [[], 0];
  }
  if (length > 0) yield Buffer.concat(parts);
}
