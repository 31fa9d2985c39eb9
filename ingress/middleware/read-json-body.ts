import type { IncomingMessage } from 'node:http';
import { parse as parseContentType } from 'content-type';
import getRawBody from 'raw-body';
import { ApiError, errorStatus } from '../../shared/errors.ts';
import type { BodyBudget, BodyShare } from '../body-budget.ts';
import { parseJsonBody } from '../json-body.ts';
import type { IngressMetrics } from '../metrics.ts';
import { overloaded } from '../overloaded.ts';
import type { RefusedBodies } from '../refused-bodies.ts';
import type { AppContext, Stage } from '../request-state.ts';

type Parts = {
  bodyBytesMax: number;
  bodyMs: number;
  giveUp: AbortSignal;
  budget: BodyBudget;
  refusedBodies: RefusedBodies;
  metrics: Pick<IngressMetrics, 'bodyRefusals'>;
};

/**
 * Reads the body as a JSON object of at most `bodyBytesMax`, in at most `bodyMs`. It is refused by its announced length
 * before a byte is read, and by count while it is read; it has to be `application/json` in UTF-8, and not compressed,
 * because a small compressed body can be a large one. A body that still comes when `giveUp` is aborted is refused with its
 * reason. Its bytes count against the budget while the next stages run, unless one of them says that they are no longer held. If
 * it is refused before, the next one of its account may have to wait.
 */
export function readJsonBody(parts: Parts): Stage {
  return async function readJsonBody(ctx, next) {
    refuseOtherMedia(ctx.req);
    if (Number(ctx.req.headers['content-length']) > parts.bodyBytesMax) throw tooLarge(parts.bodyBytesMax);
    const share = parts.budget.enter(ctx.state.caller?.account ?? 'anonymous', ctx.req);
    if (share === undefined) throw noRoom(parts);
    ctx.state.bodyShare = share;
    const account = ctx.state.caller?.account;
    try {
      const bytes = await readBytes(ctx, share, parts);
      if (account === undefined) await parse(bytes);
      else await parseInTurn(account, bytes);
    } finally {
      share.leave();
    }

    async function parseInTurn(account: string, bytes: Buffer): Promise<void> {
      await parts.refusedBodies.turn(account);
      if (ctx.req.socket.destroyed) throw endedEarly();
      if (parts.giveUp.aborted) throw parts.giveUp.reason;
      try {
        await parse(bytes);
      } catch (error) {
        if (!share?.hasLeft() && isRefusal(error)) parts.refusedBodies.add(account, bytes.length);
        throw error;
      }
    }

    async function parse(bytes: Buffer): Promise<void> {
      ctx.state.body = parseJsonBody(bytes);
      await next();
    }
  };
}

/** By a fault of the client's. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && errorStatus(error.code) < 500;
}

function noRoom({ metrics }: Pick<Parts, 'metrics'>): ApiError {
  metrics.bodyRefusals.inc();
  return overloaded('it has no memory left for the bodies of requests');
}

function refuseOtherMedia({ headersDistinct }: IncomingMessage): void {
  const [contentType, another] = headersDistinct['content-type'] ?? [];
  const { type, parameters } = parseContentType(contentType ?? '');
  if (type !== 'application/json' || another !== undefined) {
    throw unsupported('content-type: expected exactly one, application/json');
  }
  const charset = parameters.charset?.toLowerCase() ?? 'utf-8';
  if (charset !== 'utf-8' && charset !== 'utf8') throw unsupported('content-type: expected the charset utf-8');
  const encodings = headersDistinct['content-encoding'] ?? [];
  if (encodings.some((encoding) => encoding.toLowerCase() !== 'identity')) {
    throw unsupported('content-encoding: a compressed body is not accepted', { 'accept-encoding': 'identity' });
  }
}

function unsupported(message: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', message, { headers });
}

async function readBytes({ req, res }: AppContext, share: BodyShare, parts: Parts): Promise<Buffer> {
  const { bodyBytesMax, bodyMs, giveUp } = parts;
  // Its client left while the stages before this one ran: the rest of its body will not come.
  if (req.destroyed) throw endedEarly();
  const length = req.headers['content-length'];
  // HTTP/1.0 knows no interim answers, and RFC 9110 10.1.1 forbids to send it one.
  if (req.headers.expect?.toLowerCase() === '100-continue' && req.httpVersion !== '1.0') res.writeContinue();
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(share.hadToWait() ? noRoom(parts) : tooSlow()), bodyMs);
  const onGiveUp = () => late.reject(giveUp.reason);
  if (giveUp.aborted) onGiveUp();
  else giveUp.addEventListener('abort', onGiveUp);
  const onData = (piece: Buffer) => share.add(piece.byteLength);
  req.on('data', onData);
  try {
    const reading = getRawBody(req, { limit: bodyBytesMax, ...(length !== undefined && { length }) });
    return await Promise.race([reading, late.promise]);
  } catch (error) {
    throw classify(error, bodyBytesMax);
  } finally {
    req.off('data', onData);
    share.arrived();
    clearTimeout(timer);
    giveUp.removeEventListener('abort', onGiveUp);
  }
}

function tooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

/** The codes are those of raw-body's own errors. */
function classify(error: unknown, bodyBytesMax: number): unknown {
  const { type } = error as { type?: unknown }; // read from whatever was thrown; another shape has none
  if (type === 'entity.too.large') return tooLarge(bodyBytesMax);
  if (type === 'request.aborted' || type === 'request.size.invalid') {
    return endedEarly(error);
  }
  return error;
}

function endedEarly(cause?: unknown): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length', { cause });
}

function tooLarge(bodyBytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bodyBytesMax} bytes.`);
}
