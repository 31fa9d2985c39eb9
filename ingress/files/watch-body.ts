import type { IncomingMessage } from 'node:http';
import { bodyEndedEarly, bodyTooLarge, bodyTooSlow } from '../listener/body-errors.ts';

export type BodyBounds = {
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
