import { holderOf } from '../../shared/caller.ts';
import { createBusyLoop } from '../../shared/turns/busy-loop.ts';
import { createTurns, type Turns } from '../../shared/turns/in-turn.ts';
import { type Stage, stateOf } from '../request-state.ts';

const busyPaceMs = 25;

/**
 * For routes that no limit counts: of an account one request begins in each turn of the event loop, and one in 25 ms while the loop is busy.
 * So requests of others come between, however many an account sends (contract.md#v3-rests). A request whose client has left by then is not
 * begun.
 */
export function takeTurns({
  isBusy = createBusyLoop(),
  pause = (then: () => void): void => void setTimeout(then, busyPaceMs),
} = {}): Stage {
  const accounts = new Map<string, { turns: Turns; waiting: number }>();

  async function turnOf(holder: string): Promise<void> {
    const own = accounts.get(holder) ?? { turns: createTurns({ isBusy, pause }), waiting: 0 };
    accounts.set(holder, own);
    own.waiting += 1;
    await own.turns.next();
    own.waiting -= 1;
    if (own.waiting === 0) accounts.delete(holder);
  }

  return async function takeTurn(ctx, next) {
    await turnOf(holderOf(stateOf(ctx, 'caller')));
    if (!ctx.req.socket.destroyed) await next();
  };
}
