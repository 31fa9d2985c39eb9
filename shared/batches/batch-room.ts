import { z } from 'zod';
import { storedDate } from '../json/stored-values.ts';
import type { Decision } from '../store/documents.ts';

const count = z.int().nonnegative();

const roomEntrySchema = z.object({
  tokens: count,
  bytes: count,
  since: storedDate,
});

export const batchRoomSchema = z.object({
  bytes: count,
  entries: z.record(z.string(), roomEntrySchema),
  refused: z.object({ bytes: count, at: storedDate }).optional(),
});

/**
 * What the unfinished batches of an account hold, by their ids: the tokens of their prompts, and bytes for their results
 * (contract.md#ho6-room-of-accounts). An entry is there before its batch is, `since` then, and until the batch is over. Its bytes are those
 * that are reserved for all lines, and those of results beyond that, until they count as files. `bytes` is the sum of all entries.
 * `refused` are the bytes of the largest result that had no room, also if its batch is over (`refusedBytes`).
 */
export type BatchRoom = z.infer<typeof batchRoomSchema>;
export type RoomEntry = BatchRoom['entries'][string];

/** A pure decision on a room. Without `next` it remains unchanged. */
export type DecideRoom<Result> = (room: BatchRoom) => Decision<BatchRoom, Result>;

export const emptyRoom: BatchRoom = { bytes: 0, entries: {} };

/** About what a file takes of the store in addition to its bytes. */
export const bytesBesideFile = 4_096;
/** Each line ends in a file, at least with an error. That takes about this many bytes, beside a `custom_id` that is long. */
export const lineBytesReserved = 512;
export const filesOfBatchMax = 2;

export function newRoomEntry({ lines, tokens, since }: { lines: number; tokens: number; since: Date }): RoomEntry {
  return { tokens, bytes: filesOfBatchMax * bytesBesideFile + lines * lineBytesReserved, since };
}

/** What an account may hold. `filesMax` and `bytesMax` are what its files leave. */
export type RoomLimits = { batchesMax: number; filesMax: number; bytesMax: number; tokensMax: number | undefined };

/** Which limit a further batch would exceed, and how much the others hold. */
export type RoomRefusal = { limit: 'batches' | 'files' | 'bytes' | 'tokens'; held: number };

/** Adds the entry of a batch, unless it would exceed a limit: then returns which. */
export function enterRoom(batch: string, entry: RoomEntry, limits: RoomLimits): DecideRoom<RoomRefusal | undefined> {
  return (room) => {
    const others = Object.values(room.entries);
    const tokens = others.reduce((sum, each) => sum + each.tokens, 0);
    const { batchesMax, filesMax, bytesMax, tokensMax = Number.POSITIVE_INFINITY } = limits;
    if (others.length >= batchesMax) return { result: { limit: 'batches', held: others.length } };
    if (tokens + entry.tokens > tokensMax) return { result: { limit: 'tokens', held: tokens } };
    if ((others.length + 1) * filesOfBatchMax > filesMax) return { result: { limit: 'files', held: others.length } };
    if (room.bytes + entry.bytes > bytesMax) return { result: { limit: 'bytes', held: room.bytes } };
    return { result: undefined, next: withEntry(room, batch, entry) };
  };
}

/** Removes entries. Those that are not there change nothing. */
export function leaveRoom(batches: readonly string[]): DecideRoom<undefined> {
  return (room) => {
    const kept = Object.entries(room.entries).filter(([batch]) => !batches.includes(batch));
    if (kept.length === Object.keys(room.entries).length) return { result: undefined };
    return { result: undefined, next: withEntries(room, Object.fromEntries(kept)) };
  };
}

/** `full`: the bytes of the account's batches would be more than `bytesMax`. `absent`: the batch has no entry, because it is over. */
export type TakeOutcome = 'taken' | 'full' | 'absent';
export type WantedBytes = { batch: string; bytes: number; bytesMax: number };

/** Takes back what was added for results that were stored already. */
export function giveBackBytes(batch: string, bytes: number): DecideRoom<undefined> {
  return changeEntry(batch, (entry) => ({ ...entry, bytes: Math.max(0, entry.bytes - bytes) }));
}

/** From now on the results of the batch count as its files. */
export function moveBytesToFiles(batch: string): DecideRoom<undefined> {
  return changeEntry(batch, (entry) => (entry.bytes === 0 ? undefined : { ...entry, bytes: 0 }));
}

const refusedMs = 86_400_000;

/** The bytes of the largest result that had no room within a day: while there is less room, no line of the account runs. */
export function refusedBytes({ refused }: Pick<BatchRoom, 'refused'>, now: number): number {
  return refused === undefined || now - refused.at.getTime() > refusedMs ? 0 : refused.bytes;
}

/** Notes that a result of this many bytes had no room. */
export function noteRefused(bytes: number, now: number): DecideRoom<undefined> {
  return (room) => {
    if (bytes <= refusedBytes(room, now)) return { result: undefined };
    return { result: undefined, next: { ...room, refused: { bytes, at: new Date(now) } } };
  };
}

function changeEntry(batch: string, change: (entry: RoomEntry) => RoomEntry | undefined): DecideRoom<undefined> {
  return (room) => {
    const entry = room.entries[batch];
    const next = entry && change(entry);
    return { result: undefined, ...(next && { next: withEntry(room, batch, next) }) };
  };
}

function withEntry(room: BatchRoom, batch: string, entry: RoomEntry): BatchRoom {
  return withEntries(room, { ...room.entries, [batch]: entry });
}

function withEntries(room: BatchRoom, entries: BatchRoom['entries']): BatchRoom {
  return { ...room, entries, bytes: Object.values(entries).reduce((sum, { bytes }) => sum + bytes, 0) };
}
