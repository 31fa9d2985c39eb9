import type { IncomingMessage, ServerResponse } from 'node:http';
import { ulid } from 'ulid';
import type { StoredFile } from '../../shared/batches/batch.ts';
import { createRests } from '../../shared/concurrency/in-turn.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { claimOf, createTidy, requireRoom } from '../files/account-room.ts';
import { daySeconds } from '../files/form-fields.ts';
import { readForm } from '../files/read-form.ts';
import { type ComingFile, receiveFile } from '../files/receive-file.ts';
import { createUploadSlots } from '../files/upload-slots.ts';
import { watchBody } from '../files/watch-body.ts';
import { bodyTooLarge, mediaParameters, refuseCompressed, sendContinue } from '../listener/body-errors.ts';

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
