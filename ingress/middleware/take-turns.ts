import { createBusyLoop, createTurns, type Turns, turnsBusyFrom } from '../../shared/concurrency/in-turn.ts';
import { holderOf } from '../../shared/store/records/account.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/**
 * For routes that no limit counts: of an account one request begins in each turn of the event loop, and one in 25 ms while the loop is
 * busy. So requests of others come between, however many an account sends (contract.md#v3-rests). A request whose client leaves no longer
 * waits, so connections bound how many do.
 */
export function takeTurns(options: Parameters<typeof createTurns>[0] = {}): Stage {
  const pace = { isBusy: createBusyLoop(turnsBusyFrom), ...options };
  const accounts = new Map<string, { turns: Turns; waiting: number }>();

  return async function takeTurn(ctx, next) {
    const holder = holderOf(stateOf(ctx, 'caller'));
    const own = accounts.get(holder) ?? { turns: createTurns(pace), waiting: 0 };
    accounts.set(holder, own);
    own.waiting += 1;
    await turnOrLeaving(own.turns, ctx.req);
    own.waiting -= 1;
    if (own.waiting === 0) accounts.delete(holder);
    if (!ctx.req.socket.destroyed) await next();
  };
}

async function turnOrLeaving({ run }: Turns, { socket }: AppContext['req']): Promise<void> {
  if (socket.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const withdraw = run(resolve);
  const leave = () => {
    withdraw();
    resolve();
  };
  socket.once('close', leave);
  await promise;
  socket.off('close', leave);
}
