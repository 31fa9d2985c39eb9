import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';

export type BodyBounds = {
  bytesMax: number;
  /** Of all of it. */
  totalMs: number;
  /** Without a byte, while we would take one. */
  silentMs: number;
  giveUp: AbortSignal;
};

/**
 * Aborted, with the `ApiError` to answer, once a body passes one of its bounds, its client leaves before its end, or
 * `giveUp` is aborted. Reads nothing itself; disposed of, it watches no longer.
 */
export function watchBody(req: IncomingMessage, bounds: BodyBounds): Disposable & { signal: AbortSignal } {
  const { bytesMax, totalMs, silentMs, giveUp } = bounds;
  const controller = new AbortController();
  const refuse = (error: unknown) => controller.abort(error);
  let bytes = 0;

  // Paused is whoever takes it, and not its client.
  const onSilence = () => (req.isPaused() || req.readableEnded ? silence.refresh() : refuse(late()));
  const silence = setTimeout(onSilence, silentMs);
  const total = setTimeout(() => refuse(late()), totalMs);
  const onGiveUp = () => refuse(giveUp.reason);
  // Also after its last byte: what was not read by then is not given out any more.
  const onClose = () => req.readableEnded || refuse(endedEarly());
  const onData = (chunk: Buffer) => {
    silence.refresh();
    bytes += chunk.length;
    if (bytes > bytesMax) refuse(bodyTooLarge(bytesMax));
  };

  if (giveUp.aborted) onGiveUp();
  if (req.destroyed) onClose();
  giveUp.addEventListener('abort', onGiveUp);
  req.on('close', onClose);
  // Or this listener would have it flow before anybody takes it; piping lets it flow.
  req.pause();
  req.on('data', onData);

  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      clearTimeout(silence);
      clearTimeout(total);
      giveUp.removeEventListener('abort', onGiveUp);
      req.off('close', onClose);
      req.off('data', onData);
    },
  };
}

function late(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

function endedEarly(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length');
}

export function bodyTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bytesMax} bytes.`);
}
