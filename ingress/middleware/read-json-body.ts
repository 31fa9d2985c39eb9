import type { IncomingMessage } from 'node:http';
import { createRests } from '../../shared/concurrency/in-turn.ts';
import { ApiError, errorStatus } from '../../shared/errors.ts';
import { type Caller, holderOf } from '../../shared/store/records/account.ts';
import {
  type BodyBudget,
  type BodyShare,
  type LargeBodies,
  largeBytesMin,
  pacedBytesMin,
  type RefusedBodies,
} from '../listener/body-budget.ts';
import { parseJsonBody } from '../listener/json-body.ts';
import {
  bodyEndedEarly,
  bodyTooLarge,
  bodyTooSlow,
  mediaParameters,
  networkOf,
  overloadError,
  refuseCompressed,
  sendContinue,
  unsupportedMedia,
} from '../listener/request-headers.ts';
import type { IngressMetrics } from '../metrics.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

type BodyOptions = {
  bodyBytesMax: number;
  bodyMs: number;
  giveUp: AbortSignal;
  budget: Pick<BodyBudget, 'enter'>;
  refusedBodies: RefusedBodies;
  largeBodies: LargeBodies;
  metrics: Pick<IngressMetrics, 'bodyRefusals'>;
};

/**
 * Reads the body as a JSON object of at most `bodyBytesMax`, in at most `bodyMs`. A body that is too large is refused by its announced
 * length before a byte is read, and by count while it is read. It must be `application/json` in UTF-8 and not compressed. A body that is
 * still arriving when `giveUp` is aborted is refused with its reason. The bytes count against the budget while the next stages run, unless
 * one of them reports that they are no longer held (decisions.md#our-own-body-reader). If the request is refused before that, or its body
 * is large, the next body of its account, or of its network if a device sent it, may have to wait, or is refused.
 */
export function readJsonBody(deps: BodyOptions): Stage {
  const rest = createRests();
  return async function readJsonBody(ctx, next) {
    refuseOtherMedia(ctx.req);
    const announced = Number(ctx.req.headers['content-length']);
    if (announced > deps.bodyBytesMax) throw bodyTooLarge(deps.bodyBytesMax);
    const { caller } = ctx.state;
    const sender = caller && senderOf(caller, stateOf(ctx, 'address'));
    const { largeBodies } = deps;
    const connected = <T>(wait: (signal: AbortSignal) => Promise<T>) => whileConnected(ctx, deps.giveUp, wait);
    let settle =
      sender !== undefined && announced >= pacedBytesMin
        ? await connected((signal) => largeBodies.time(sender, announced, signal))
        : undefined;
    const share = deps.budget.enter(caller ? holderOf(caller) : 'anonymous', ctx.req);
    if (share === undefined) {
      settle?.(0);
      throw noRoom(deps);
    }
    let [length, arrived] = [0, 0];
    let leaveLarge = () => {};
    ctx.state.bodyShare = {
      leave() {
        share.leave();
        leaveLarge();
      },
    };
    // No variable here may hold the bytes: they would stay in memory while the next stages run.
    const read = async () => {
      const onLength = (bytes: number) => {
        arrived = bytes;
        if (sender !== undefined && arrived >= pacedBytesMin) settle ??= largeBodies.timeNow(sender, arrived);
      };
      const bytes = takeArrived(ctx, share, deps) ?? (await readBytes(ctx, share, { ...deps, onLength }));
      length = bytes.length;
      settle?.(length);
      settle = undefined;
      if (sender !== undefined && deps.refusedBodies.mustWait(sender)) await deps.refusedBodies.turn(sender);
      const isLarge = length >= largeBytesMin;
      if (isLarge) leaveLarge = await connected((signal) => largeBodies.place(length, signal));
      if (ctx.req.socket.destroyed) throw bodyEndedEarly();
      if (deps.giveUp.aborted) throw deps.giveUp.reason;
      const since = performance.now();
      ctx.state.body = parseJsonBody(bytes);
      if (isLarge) await rest(performance.now() - since);
    };
    try {
      await read();
      await next();
    } catch (error) {
      if (sender !== undefined && !share.hasLeft() && isRefusal(error)) deps.refusedBodies.add(sender, length);
      throw error;
    } finally {
      share.leave();
      leaveLarge();
      settle?.(arrived);
    }
  };
}

/** Runs a wait that ends when this process stops or the client disconnects. */
async function whileConnected<T>(
  { res }: AppContext,
  giveUp: AbortSignal,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const left = new AbortController();
  const leave = () => left.abort(bodyEndedEarly());
  if (res.closed) leave();
  res.once('close', leave);
  try {
    return await wait(AbortSignal.any([giveUp, left.signal]));
  } finally {
    res.off('close', leave);
  }
}

/**
 * Whose bodies wait after a refused or a large one. A network can have many devices; if all devices were one, a stranger could delay them
 * all.
 */
function senderOf(caller: Caller, address: string): string {
  return holderOf(caller) === caller.account ? caller.account : networkOf(address);
}

/** Whether the client caused the error. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && errorStatus(error.code) < 500;
}

function noRoom({ metrics }: Pick<BodyOptions, 'metrics'>): ApiError {
  metrics.bodyRefusals.inc();
  return overloadError('it has no memory left for the bodies of requests');
}

function refuseOtherMedia(request: IncomingMessage): void {
  const charset = mediaParameters(request, 'application/json').charset?.toLowerCase() ?? 'utf-8';
  if (charset !== 'utf-8' && charset !== 'utf8') throw unsupportedMedia('content-type: expected the charset utf-8');
  refuseCompressed(request);
}

/**
 * Returns the body if all of it has arrived, and undefined otherwise. Most bodies arrive in one packet with their head. Without a timer, a
 * signal and listeners a request costs the ingress a sixth less, not counting Redis.
 */
function takeArrived({ req, state }: AppContext, share: BodyShare, { bodyBytesMax }: BodyOptions): Buffer | undefined {
  // Node sets `complete` after the last piece was read, which is too late here.
  const isWhole = req.complete || req.readableLength === Number(req.headers['content-length']);
  // Node closes the connection after a request with `Expect`, unless 100 Continue was sent.
  const isAsking = req.headers.expect !== undefined;
  if (!isWhole || isAsking || req.destroyed || !share.hasRoomFor(req.readableLength)) return undefined;
  const bytes: Buffer = req.read() ?? Buffer.alloc(0);
  req.resume(); // without it the request never ends
  state.isBodyWhole = true;
  share.add(bytes.length);
  share.arrived();
  if (bytes.length > bodyBytesMax) throw bodyTooLarge(bodyBytesMax);
  return bytes;
}

/** `onLength` is called with the bytes that have arrived, after each piece. If it fails, the body does. */
type ReadOptions = BodyOptions & { onLength: (bytes: number) => void };

async function readBytes({ req, res }: AppContext, share: BodyShare, deps: ReadOptions): Promise<Buffer> {
  const { bodyMs, giveUp, metrics, onLength } = deps;
  // The client disconnected while earlier stages ran, so the rest of the body will not arrive.
  if (req.destroyed) throw bodyEndedEarly();
  sendContinue({ req, res });
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(share.isHeldUp(bodyMs) ? noRoom(deps) : bodyTooSlow()), bodyMs);
  const onGiveUp = () => stop.abort(giveUp.reason);
  if (giveUp.aborted) onGiveUp();
  else giveUp.addEventListener('abort', onGiveUp);
  const onMakeRoom = () => {
    metrics.bodyRefusals.inc();
    stop.abort(share.signal.reason);
  };
  share.signal.addEventListener('abort', onMakeRoom);
  try {
    const { signal } = stop;
    return await collectBytes(req, { bytesMax: deps.bodyBytesMax, onBytes: share.add, onLength, signal });
  } finally {
    share.arrived();
    clearTimeout(timer);
    giveUp.removeEventListener('abort', onGiveUp);
    share.signal.removeEventListener('abort', onMakeRoom);
  }
}

type CollectOptions = Pick<ReadOptions, 'onLength'> & {
  bytesMax: number;
  onBytes: (bytes: number) => void;
  signal: AbortSignal;
};

/** After a failure, no received or later bytes are held. */
async function collectBytes(
  req: IncomingMessage,
  { bytesMax, onBytes, onLength, signal }: CollectOptions,
): Promise<Buffer> {
  const { promise: whole, resolve, reject } = Promise.withResolvers<void>();
  const pieces: Buffer[] = [];
  let length = 0;
  const onData = (piece: Buffer) => {
    onBytes(piece.length);
    length += piece.length;
    pieces.push(piece);
    try {
      onLength(length);
      if (length > bytesMax) throw bodyTooLarge(bytesMax);
    } catch (error) {
      reject(error);
    }
  };
  const onClose = () => reject(bodyEndedEarly());
  const onStop = () => reject(signal.reason);
  if (signal.aborted) onStop();
  signal.addEventListener('abort', onStop);
  const onEnd = () => {
    req.off('close', onClose); // the next event, which would create an error that is never used
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
