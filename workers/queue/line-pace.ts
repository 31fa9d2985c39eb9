import type { Lane } from '../../shared/lane.ts';
import { createBusyLoop } from '../turns/busy-loop.ts';

/** While clients use this worker, lines of batches take only a part of its time (contract.md#v3-rests). */
export interface LinePace {
  /** Whether a line may begin. */
  isDue(): boolean;
  /** A job of this lane is being taken. */
  noteTaking(lane: Lane): void;
  /** A line has got an answer of so many bytes. */
  noteAnswer(bytes: number): void;
}

/** A client that sent a request this long ago no longer counts. */
const clientMs = 5_000;
const busyPaceMs = 250;
/** What an answer costs grows with its bytes, up to a hundred times the cost of a short one. */
const answerBytesPerMs = 2_048;

export function createLinePace({ now = () => performance.now(), isBusy = createBusyLoop() } = {}): LinePace {
  let clientAt = Number.NEGATIVE_INFINITY;
  let lineAt = Number.NEGATIVE_INFINITY;
  let restsUntil = Number.NEGATIVE_INFINITY;
  return {
    isDue() {
      if (now() - clientAt > clientMs) return true;
      return now() >= restsUntil && (!isBusy() || now() - lineAt >= busyPaceMs);
    },
    noteTaking(lane) {
      if (lane === 'interactive') clientAt = now();
      else lineAt = now();
    },
    noteAnswer(bytes) {
      restsUntil = Math.max(restsUntil, now()) + bytes / answerBytesPerMs;
    },
  };
}
