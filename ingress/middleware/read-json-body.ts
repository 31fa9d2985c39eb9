import type { IncomingMessage } from 'node:http';
import { parse as parseContentType } from 'content-type';
import { ApiError, errorStatus } from '../../shared/errors.ts';
import { headerValues } from '../api/header-values.ts';
import { parseJsonBody } from '../api/json-body.ts';
import { overloaded } from '../api/overloaded.ts';
import type { BodyBudget, BodyShare } from '../bodies/body-budget.ts';
import type { RefusedBodies } from '../bodies/refused-bodies.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { AppContext, Stage } from '../request-state.ts';

type BodyOptions = {
  bodyBytesMax: number;
  bodyMs: number;
  giveUp: AbortSignal;
  budget: Pick<BodyBudget, 'enter'>;
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
export function readJsonBody(deps: BodyOptions): Stage {
  return async function readJsonBody(ctx, next) {
    refuseOtherMedia(ctx.req);
    if (Number(ctx.req.headers['content-length']) > deps.bodyBytesMax) throw tooLarge(deps.bodyBytesMax);
    const share = deps.budget.enter(ctx.state.caller?.account ?? 'anonymous', ctx.req);
    if (share === undefined) throw noRoom(deps);
    ctx.state.bodyShare = share;
    const account = ctx.state.caller?.account;
    let length = 0;
    // While the next stages run, no variable here may hold the bytes: they would be held as long.
    const read = async () => {
      const bytes = takeArrived(ctx, share, deps) ?? (await readBytes(ctx, share, deps));
      length = bytes.length;
      if (account !== undefined && deps.refusedBodies.mustWait(account)) await deps.refusedBodies.turn(account);
      if (ctx.req.socket.destroyed) throw endedEarly();
      if (deps.giveUp.aborted) throw deps.giveUp.reason;
      ctx.state.body = parseJsonBody(bytes);
    };
    try {
      await read();
      await next();
    } catch (error) {
      if (account !== undefined && !share.hasLeft() && isRefusal(error)) deps.refusedBodies.add(account, length);
      throw error;
    } finally {
      share.leave();
    }
  };
}

/** By a fault of the client's. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && errorStatus(error.code) < 500;
}

function noRoom({ metrics }: Pick<BodyOptions, 'metrics'>): ApiError {
  metrics.bodyRefusals.inc();
  return overloaded('it has no memory left for the bodies of requests');
}

function refuseOtherMedia(request: IncomingMessage): void {
  const [contentType, another] = headerValues(request, 'content-type');
  const { type, parameters } = parseContentType(contentType ?? '');
  if (type !== 'application/json' || another !== undefined) {
    throw unsupported('content-type: expected exactly one, application/json');
  }
  const charset = parameters.charset?.toLowerCase() ?? 'utf-8';
  if (charset !== 'utf-8' && charset !== 'utf8') throw unsupported('content-type: expected the charset utf-8');
  const encodings = headerValues(request, 'content-encoding');
  if (encodings.some((encoding) => encoding.toLowerCase() !== 'identity')) {
    throw unsupported('content-encoding: a compressed body is not accepted', { 'accept-encoding': 'identity' });
  }
}

function unsupported(message: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', message, { headers });
}

/**
 * The body, if all of it has arrived: most come in one packet with their head. Without a timer, a signal and listeners a request costs
 * the ingress a sixth less, Redis left out. Undefined if more has to be waited for.
 */
function takeArrived({ req, state }: AppContext, share: BodyShare, { bodyBytesMax }: BodyOptions): Buffer | undefined {
  // Node sets `complete` after the last piece has been handed over, which is too late here.
  const isWhole = req.complete || req.readableLength === Number(req.headers['content-length']);
  // Node closes the connection after a request with `Expect`, unless 100 Continue was sent.
  const isAsking = req.headers.expect !== undefined;
  if (!isWhole || isAsking || req.destroyed || !share.hasRoomFor(req.readableLength)) return undefined;
  const bytes: Buffer = req.read() ?? Buffer.alloc(0);
  req.resume(); // without it the request never ends
  state.isBodyWhole = true;
  share.add(bytes.length);
  share.arrived();
  if (bytes.length > bodyBytesMax) throw tooLarge(bodyBytesMax);
  return bytes;
}

async function readBytes({ req, res }: AppContext, share: BodyShare, deps: BodyOptions): Promise<Buffer> {
  const { bodyMs, giveUp, metrics } = deps;
  // Its client left while the stages before this one ran: the rest of its body will not come.
  if (req.destroyed) throw endedEarly();
  // HTTP/1.0 knows no interim answers, and RFC 9110 10.1.1 forbids to send it one.
  if (req.headers.expect?.toLowerCase() === '100-continue' && req.httpVersion !== '1.0') res.writeContinue();
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(share.isHeldUp(bodyMs) ? noRoom(deps) : tooSlow()), bodyMs);
  const onGiveUp = () => stop.abort(giveUp.reason);
  if (giveUp.aborted) onGiveUp();
  else giveUp.addEventListener('abort', onGiveUp);
  share.signal.addEventListener('abort', () => {
    metrics.bodyRefusals.inc();
    stop.abort(share.signal.reason);
  });
  try {
    return await collectBytes(req, { bytesMax: deps.bodyBytesMax, onBytes: share.add, signal: stop.signal });
  } finally {
    share.arrived();
    clearTimeout(timer);
    giveUp.removeEventListener('abort', onGiveUp);
  }
}

type Collecting = { bytesMax: number; onBytes: (bytes: number) => void; signal: AbortSignal };

/** Once it has failed, nothing of what came or still comes is held. */
async function collectBytes(req: IncomingMessage, { bytesMax, onBytes, signal }: Collecting): Promise<Buffer> {
  const { promise: whole, resolve, reject } = Promise.withResolvers<void>();
  const pieces: Buffer[] = [];
  let length = 0;
  const onData = (piece: Buffer) => {
    onBytes(piece.length);
    length += piece.length;
    if (length > bytesMax) reject(tooLarge(bytesMax));
    else pieces.push(piece);
  };
  const onClose = () => reject(endedEarly());
  const onStop = () => reject(signal.reason);
  if (signal.aborted) onStop();
  signal.addEventListener('abort', onStop);
  const onEnd = () => {
    req.off('close', onClose); // the next event, which would create an error that no one reads
    resolve();
  };
  req.on('data', onData).once('end', onEnd).once('close', onClose);
  try {
    await whole;
    return Buffer.concat(pieces, length);
  } finally {
    req.off('data', onData).off('end', onEnd).off('close', onClose);
  }
}

function tooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

function endedEarly(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length');
}

function tooLarge(bodyBytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bodyBytesMax} bytes.`);
}
