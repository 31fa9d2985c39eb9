import type { IncomingMessage, ServerResponse } from 'node:http';
import { ulid } from 'ulid';
import type { StoredFile } from '../../shared/batches/batch.ts';
import { createRests } from '../../shared/concurrency/in-turn.ts';
import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import {
  bodyEndedEarly,
  bodyTooLarge,
  bodyTooSlow,
  mediaParameters,
  refuseCompressed,
  sendContinue,
} from '../listener/request-headers.ts';
import { claimOf, createTidy, requireRoom } from './account-room.ts';
import { daySeconds, readForm } from './read-form.ts';
import { type ComingFile, receiveFile } from './receive-file.ts';

type BatchLimits = PlanFile['batch'];
type UploadBounds = { totalMs: number; windowMs: number; uploadsMax: number; ofAccountMax: number };

const defaultBounds: UploadBounds = { totalMs: 900_000, windowMs: 15_000, uploadsMax: 32, ofAccountMax: 4 };
/** The most bytes of a form in addition to its file: boundaries, the heads of its parts, and its fields. */
const aroundBytesMax = 65_536;

/** Who uploads, and what its plan file allows. `now`: Redis's time, in milliseconds. */
type Upload = { caller: Caller; now: number; limits: BatchLimits };

/** Streams the file of a form into the store. An upload that is refused or ends early leaves nothing. */
export type UploadFile = (http: { req: IncomingMessage; res: ServerResponse }, upload: Upload) => Promise<StoredFile>;

export function createUploadFile({
  store,
  giveUp,
  log,
  bounds = defaultBounds,
}: {
  store: Pick<Store, 'batches' | 'files'>;
  giveUp: AbortSignal;
  log: Log;
  bounds?: UploadBounds;
}): UploadFile {
  const slots = createUploadSlots(bounds);
  const rest = createRests();
  const tidy = createTidy({ store: store.batches });

  return async function uploadFile({ req, res }, upload) {
    const boundary = boundaryOf(req);
    const { now, limits } = upload;
    const { fileBytesMax, requestsMax } = limits;
    const keptSecondsMax = limits.filesKeptDays * daySeconds;
    const windowBytesMin = (limits.uploadBytesPerSecondMin * bounds.windowMs) / 1_000;
    const bytesMax = fileBytesMax + aroundBytesMax;
    const length = req.headers['content-length'];
    const announced = length === undefined ? undefined : Number(length);
    if (announced !== undefined && announced > bytesMax) throw bodyTooLarge(bytesMax);
    const coming = comingFile(upload);
    const { account } = coming;
    const of = { store: store.batches, tidy, account, limits, now };
    const room = { announced, requireRoom: () => requireRoom(of) };
    const reception = receiveFile(coming, { store, requestsMax, ...room, log, rest });
    const slot = slots.enter(account);
    try {
      await requireRoom(of, { bytes: announced ?? claimOf(0) });
      const giveUpOrSlot = AbortSignal.any([giveUp, slot.signal]);
      using watch = watchBody(req, {
        ...bounds,
        bytesMax,
        windowBytesMin,
        giveUp: giveUpOrSlot,
        onBytes: slot.received,
      });
      sendContinue({ req, res });
      const { signal } = watch;
      const form = { boundary, fileBytesMax, keptSecondsMax, signal, take: reception.take };
      const { taken, keptSeconds } = await readForm(req, form);
      return await reception.keep(taken, keptSeconds);
    } catch (error) {
      await reception.discard();
      throw error;
    } finally {
      slot.leave();
    }
  };
}

/** Its id and times are by Redis's clock, so that ids sort by time. */
function comingFile({ caller: { account, keyId }, now, limits: { filesKeptDays } }: Upload): ComingFile {
  return {
    id: `file-${ulid(now)}`,
    account,
    ...(keyId !== undefined && { keyId }),
    createdAt: new Date(now),
    expiresAt: new Date(now + filesKeptDays * daySeconds * 1_000),
  };
}

/** RFC 2046 5.1.1. */
const wellFormedBoundary = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

function boundaryOf(request: IncomingMessage): string {
  const { boundary } = mediaParameters(request, 'multipart/form-data');
  refuseCompressed(request);
  if (boundary === undefined || !wellFormedBoundary.test(boundary)) {
    throw new ApiError('VALIDATION_ERROR', 'content-type: expected a boundary of 1 to 70 characters (RFC 2046)');
  }
  return boundary;
}

/** A slot for one upload, to be released once. */
interface UploadSlot {
  /** Aborted with the `ApiError` to answer when the slot is given to another upload. */
  signal: AbortSignal;
  /** Counts received bytes. */
  received(bytes: number): void;
  leave(): void;
}

const retryAfterMs = 1_000;
/** An upload counts as new for this long; after that its rate decides. */
const judgedAfterMs = 5_000;
/** At this rate, a file of the maximum size would take half an hour, twice the allowed time. */
const slowBytesPerSecond = 65_536;

type RunningUpload = { account: string; since: number; bytes: number; makeRoom: AbortController };

/**
 * Limits concurrent uploads (contract.md#l6-uploads): each holds a connection, a writer of the store and up to one line in memory. If all
 * slots are taken, the slowest upload is ended with 408, unless all are fast or new: slow clients must not block others. A new upload can
 * also be ended if its account has more uploads than the account of the incoming one would have: little of it is lost, and clients that
 * restart repeatedly must not block others either.
 */
export function createUploadSlots({
  uploadsMax,
  ofAccountMax,
  now = () => performance.now(),
}: {
  uploadsMax: number;
  ofAccountMax: number;
  now?: () => number;
}) {
  const taken = new Map<string, number>();
  const uploads = new Set<RunningUpload>();

  function leave(account: string, upload: RunningUpload): void {
    uploads.delete(upload);
    const left = (taken.get(account) ?? 0) - 1;
    if (left > 0) taken.set(account, left);
    else taken.delete(account);
  }

  /** The slot is free immediately, although the upload takes a moment to end. */
  function makeRoom(uploadsOfComing: number): boolean {
    const hasMore = ({ account }: RunningUpload) => (taken.get(account) ?? 0) > uploadsOfComing;
    const slow = [...uploads]
      .filter((upload) => now() - upload.since >= judgedAfterMs || hasMore(upload))
      .map((upload) => ({ upload, rate: (upload.bytes * 1_000) / Math.max(1, now() - upload.since) }))
      .filter(({ rate }) => rate < slowBytesPerSecond);
    const [slowest] = slow.toSorted((one, other) => one.rate - other.rate);
    if (slowest === undefined) return false;
    uploads.delete(slowest.upload);
    slowest.upload.makeRoom.abort(tooSlow());
    return true;
  }

  return {
    /** Fails with `SERVICE_UNAVAILABLE` at the limit of this ingress, and with `rate_limit_exceeded` at the limit of the account. */
    enter(account: string): UploadSlot {
      const own = taken.get(account) ?? 0;
      if (own >= ofAccountMax) {
        const message = `At most ${ofAccountMax} files can be uploaded at once.`;
        throw rateLimitExceeded('concurrency_limit', message, retryAfterMs);
      }
      if (uploads.size >= uploadsMax && !makeRoom(own + 1)) {
        throw new ApiError('SERVICE_UNAVAILABLE', 'Too many files are being uploaded. Retry.', { retryAfterMs });
      }
      const upload: RunningUpload = { account, since: now(), bytes: 0, makeRoom: new AbortController() };
      uploads.add(upload);
      taken.set(account, own + 1);
      return {
        signal: upload.makeRoom.signal,
        received(bytes) {
          upload.bytes += bytes;
        },
        leave: () => leave(account, upload),
      };
    },
  };
}

function tooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'All upload slots are in use, and this upload was the slowest. Retry.');
}

type BodyBounds = {
  bytesMax: number;
  /** For the complete body. */
  totalMs: number;
  /** At least `windowBytesMin` must arrive in each window of `windowMs` in which reading is not paused. */
  windowMs: number;
  windowBytesMin: number;
  /** Aborted with the `ApiError` to answer. */
  giveUp: AbortSignal;
  onBytes: (bytes: number) => void;
};

/**
 * Returns a signal that is aborted with the `ApiError` to answer when the body exceeds a bound, the client disconnects before the end, or
 * `giveUp` is aborted. Does not read the body. Disposal ends the watch.
 */
export function watchBody(req: IncomingMessage, bounds: BodyBounds): Disposable & { signal: AbortSignal } {
  const { bytesMax, totalMs, windowMs, windowBytesMin, giveUp } = bounds;
  const controller = new AbortController();
  const refuse = (error: unknown) => controller.abort(error);
  let bytes = 0;

  let windowBytes = 0;
  let wasPaused = false;

  // While the body is paused, the store is slow and not the client.
  const onPause = () => {
    wasPaused = true;
  };
  function endWindow(): void {
    if (windowBytes < windowBytesMin && !wasPaused && !req.readableEnded) refuse(bodyTooSlow());
    windowBytes = 0;
    wasPaused = req.isPaused();
  }
  const window = setInterval(endWindow, windowMs);
  const total = setTimeout(() => refuse(bodyTooSlow()), totalMs);
  const onGiveUp = () => refuse(giveUp.reason);
  // Also after the last byte: unread bytes are not delivered after the close.
  const onClose = () => req.readableEnded || refuse(bodyEndedEarly());
  const onData = (chunk: Buffer) => {
    bytes += chunk.length;
    windowBytes += chunk.length;
    bounds.onBytes(chunk.length);
    if (bytes > bytesMax) refuse(bodyTooLarge(bytesMax));
  };

  if (giveUp.aborted) onGiveUp();
  if (req.destroyed) onClose();
  giveUp.addEventListener('abort', onGiveUp);
  req.on('close', onClose);
  // Without the pause, the `data` listener would start the flow before the body has a reader; piping resumes it.
  req.pause();
  req.on('pause', onPause);
  req.on('data', onData);

  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      clearInterval(window);
      clearTimeout(total);
      giveUp.removeEventListener('abort', onGiveUp);
      req.off('close', onClose);
      req.off('pause', onPause);
      req.off('data', onData);
    },
  };
}
