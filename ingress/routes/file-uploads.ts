import type { IncomingMessage } from 'node:http';
import { parse as parseContentType } from 'content-type';
import { ulid } from 'ulid';
import { ApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { createRests } from '../../shared/process/rests.ts';
import type { Store } from '../../shared/store/store.ts';
import { headerValues } from '../api/header-values.ts';
import { presentFile } from '../api/present-file.ts';
import { readForm } from '../files/read-form.ts';
import { type ComingFile, receiveFile } from '../files/receive-file.ts';
import { createUploadPlaces } from '../files/upload-places.ts';
import { bodyTooLarge, watchBody } from '../files/watch-body.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

type UploadBounds = { totalMs: number; windowMs: number; uploadsMax: number; ofAccountMax: number };

const defaultBounds: UploadBounds = { totalMs: 900_000, windowMs: 15_000, uploadsMax: 32, ofAccountMax: 4 };
/** What a file takes of the store beside its bytes, about. */
const bytesBesideFile = 4_096;
/** Of a form, beside its file: boundaries, the heads of its parts, and its fields. */
const aroundBytesMax = 65_536;
const dayMs = 86_400_000;

/**
 * `POST /v1/files`: takes in a file as it comes, straight into the store. An upload that is refused or breaks off, at
 * whatever point, leaves nothing.
 */
export function uploadFile({
  store,
  planFile,
  giveUp,
  log,
  bounds = defaultBounds,
}: {
  store: Pick<Store, 'batches' | 'files'>;
  planFile: PlanFile;
  giveUp: AbortSignal;
  log: Log;
  bounds?: UploadBounds;
}): Stage {
  const { fileBytesMax, accountBytesMax, accountFilesMax, requestsMax, filesKeptDays } = planFile.batch;
  const windowBytesMin = (planFile.batch.uploadBytesPerSecondMin * bounds.windowMs) / 1_000;
  const bytesMax = fileBytesMax + aroundBytesMax;
  const places = createUploadPlaces(bounds);
  const rest = createRests();

  return async function uploadFile(ctx) {
    const boundary = boundaryOf(ctx.req);
    if (Number(ctx.req.headers['content-length']) > bytesMax) throw bodyTooLarge(bytesMax);
    const coming = comingFile(ctx);
    const reception = receiveFile(coming, { store, requestsMax, log, rest });
    const place = places.enter(coming.account);
    try {
      await requireRoom(coming.account);
      const giveUpOrPlace = AbortSignal.any([giveUp, place.signal]);
      using watch = watchBody(ctx.req, {
        ...{ ...bounds, bytesMax, windowBytesMin, giveUp: giveUpOrPlace },
        onBytes: place.received,
      });
      welcome(ctx);
      const { signal } = watch;
      const file = await readForm(ctx.req, { boundary, fileBytesMax, signal, take: reception.take });
      ctx.body = presentFile(await reception.keep(file));
    } catch (error) {
      await reception.discard();
      throw error;
    } finally {
      place.leave();
    }
  };

  /** Asked once, before a byte is read: files that come at once may pass it together, each as large as a file may be. */
  async function requireRoom(account: string): Promise<void> {
    const { files, bytes } = await store.batches.countFiles(account);
    if (files >= accountFilesMax) {
      throw new ApiError(
        'CONFLICT',
        `This account has ${accountFilesMax} files, which is the most. Delete some of them.`,
      );
    }
    if (bytes + files * bytesBesideFile < accountBytesMax) return;
    const message = `The files of this account, with ${bytesBesideFile} bytes more for each, have ${accountBytesMax} bytes or more`;
    throw new ApiError('PAYLOAD_TOO_LARGE', `${message}. Delete some of them.`);
  }

  /** Its id and its times are by Redis's clock, so that ids sort by them. */
  function comingFile(ctx: AppContext): ComingFile {
    const now = stateOf(ctx, 'now');
    return {
      id: `file-${ulid(now)}`,
      account: stateOf(ctx, 'caller').account,
      createdAt: new Date(now),
      expiresAt: new Date(now + filesKeptDays * dayMs),
    };
  }
}

/** HTTP/1.0 knows no interim answers, and RFC 9110 10.1.1 forbids to send it one. */
function welcome({ req, res }: AppContext): void {
  if (req.headers.expect?.toLowerCase() === '100-continue' && req.httpVersion !== '1.0') res.writeContinue();
}

/** As RFC 2046 5.1.1 has it. */
const wellFormedBoundary = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

function boundaryOf(request: IncomingMessage): string {
  const [contentType, another] = headerValues(request, 'content-type');
  const { type, parameters } = parseContentType(contentType ?? '');
  if (type !== 'multipart/form-data' || another !== undefined) {
    throw unsupported('content-type: expected exactly one, multipart/form-data');
  }
  const encodings = headerValues(request, 'content-encoding');
  if (encodings.some((encoding) => encoding.toLowerCase() !== 'identity')) {
    throw unsupported('content-encoding: a compressed body is not accepted', { 'accept-encoding': 'identity' });
  }
  const { boundary } = parameters;
  if (boundary === undefined || !wellFormedBoundary.test(boundary)) {
    throw new ApiError('VALIDATION_ERROR', 'content-type: expected a boundary of 1 to 70 characters (RFC 2046)');
  }
  return boundary;
}

function unsupported(message: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', message, { headers });
}
