import { holderOf } from '../../shared/caller.ts';
import { type Stage, stateOf } from '../request-state.ts';

const atOnceMax = 2;

type Turns = { running: number; waiting: (() => void)[] };

/**
 * For routes that no limit counts: two requests of an account are worked on at once in this process, and the others wait in order. Each of
 * them begins in a new turn of the event loop, so requests of others come between (contract.md#v3-rests). A request whose client has left by
 * then is not begun.
 */
export function takeTurns(): Stage {
  const turns = new Map<string, Turns>();

  return async function takeTurn(ctx, next) {
    const holder = holderOf(stateOf(ctx, 'caller'));
    const own = turns.get(holder) ?? { running: 0, waiting: [] };
    turns.set(holder, own);
    if (own.running >= atOnceMax) await new Promise<void>((resolve) => own.waiting.push(resolve));
    else own.running += 1;
    try {
      if (!ctx.req.socket.destroyed) await next();
    } finally {
      const begin = own.waiting.shift();
      if (begin !== undefined) setImmediate(begin);
      else own.running -= 1;
      if (own.running === 0) turns.delete(holder);
    }
  };
}
