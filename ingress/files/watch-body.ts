import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';

export type BodyBounds = {
  bytesMax: number;
  /** Of all of it. */
  totalMs: number;
  /** In each `windowMs` in which we would take more, at least `windowBytesMin`. */
  windowMs: number;
  windowBytesMin: number;
  /** Aborted with the `ApiError` to answer. */
  giveUp: AbortSignal;
  onBytes: (bytes: number) => void;
};

/**
 * Aborted, with the `ApiError` to answer, once a body passes one of its bounds, its client leaves before its end, or
 * `giveUp` is aborted. Reads nothing itself; disposed of, it watches no longer.
 */
export function watchBody(req: IncomingMessage, bounds: BodyBounds): Disposable & { signal: AbortSignal } {
  const { bytesMax, totalMs, windowMs, windowBytesMin, giveUp } = bounds;
  const controller = new AbortController();
  const refuse = (error: unknown) => controller.abort(error);
  let bytes = 0;

  let windowBytes = 0;
  let wasPaused = false;

  // While it is paused it is the store that is slow, and not the client.
  const onPause = () => {
    wasPaused = true;
  };
  function endWindow(): void {
    if (windowBytes < windowBytesMin && !wasPaused && !req.readableEnded) refuse(late());
    windowBytes = 0;
    wasPaused = req.isPaused();
  }
  const window = setInterval(endWindow, windowMs);
  const total = setTimeout(() => refuse(late()), totalMs);
  const onGiveUp = () => refuse(giveUp.reason);
  // Also after its last byte: what was not read by then is not given out any more.
  const onClose = () => req.readableEnded || refuse(endedEarly());
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
  // Or this listener would have it flow before anybody takes it; piping lets it flow.
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

function late(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

function endedEarly(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length');
}

export function bodyTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bytesMax} bytes.`);
}
