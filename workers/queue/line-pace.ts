import { createBusyLoop } from '../../shared/concurrency/in-turn.ts';
import type { Lane } from '../../shared/redis/keys.ts';

/** Until it is disposed of, a line counts as if its answer had as many bytes as the last one of its account. */
export interface LineTurn extends Disposable {
  /** If more than 0, the line may not begin: answers of earlier lines of its account come first. In milliseconds. */
  pauseMs: number;
  /** So many bytes of its answer have arrived. */
  received(bytes: number): void;
}

/** A client that sent a request this long ago no longer counts. */
const clientMs = 5_000;
const busyFrom = 0.5;
const busyPaceMs = 250;
/** Bytes of answers of one account in a millisecond: 2 MiB a second. */
const bytesPerMs = 2_097.152;
/** So much may come at once: pausing a line costs about as much as a short answer. */
const aheadMs = 250;
/** Lines that pause look again at least this often, because clients may have left. */
const pauseMsMax = 15_000;
/** If there are more accounts, those without a rest and without a line that runs are forgotten. */
const accountsKeptMax = 1_000;

/** Of an account. `restsUntil`: when its answers are paid. `turnsUntil`: when the last line that pauses comes back. */
type Rest = { restsUntil: number; turnsUntil: number; answerBytes: number; running: number };

/** While clients use this worker, lines of batches take only a part of its time (contract.md#v3-rests). */
export function createLinePace({ now = () => performance.now(), isBusy = createBusyLoop(busyFrom) } = {}) {
  const rests = new Map<string, Rest>();
  let clientAt = Number.NEGATIVE_INFINITY;
  let lineAt = Number.NEGATIVE_INFINITY;
  const isUsed = () => now() - clientAt <= clientMs;

  function restOf(account: string): Rest {
    if (rests.size >= accountsKeptMax)
      for (const [each, { restsUntil, running }] of rests) if (restsUntil <= now() && running === 0) rests.delete(each);
    const rest = rests.get(account) ?? { restsUntil: 0, turnsUntil: 0, answerBytes: 0, running: 0 };
    rests.set(account, rest);
    return rest;
  }

  function pause(rest: Rest): LineTurn {
    const next = Math.max(rest.turnsUntil, rest.restsUntil) + rest.answerBytes / bytesPerMs;
    rest.turnsUntil = Math.min(next, now() + pauseMsMax);
    return { pauseMs: Math.max(1, rest.turnsUntil - now()), received() {}, [Symbol.dispose]() {} };
  }

  return {
    /**
     * Whether a line may be taken from its queue. Not while clients use this worker, it is busy, and it took a line less than 250 ms ago.
     */
    isDue(): boolean {
      const busy = isBusy();
      return !busy || !isUsed() || now() - lineAt >= busyPaceMs;
    },
    /** A job of this lane is being taken. */
    noteTaking(lane: Lane): void {
      if (lane === 'interactive') clientAt = now();
      else lineAt = now();
    },
    /** A line of this account wants to begin. */
    begin(account: string): LineTurn {
      const rest = restOf(account);
      if (!isUsed()) rest.restsUntil = 0;
      else if (rest.restsUntil - now() > aheadMs) return pause(rest);
      const expected = isUsed() ? rest.answerBytes : 0;
      let bytes = 0;
      rest.running += 1;
      rest.restsUntil = Math.max(rest.restsUntil, now()) + expected / bytesPerMs;
      return {
        pauseMs: 0,
        received(more) {
          bytes += more;
        },
        [Symbol.dispose]() {
          rest.running -= 1;
          if (bytes > 0) rest.answerBytes = bytes;
          if (isUsed()) rest.restsUntil += (bytes - expected) / bytesPerMs;
        },
      };
    },
  };
}

export type LinePace = ReturnType<typeof createLinePace>;
