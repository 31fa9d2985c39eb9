import type { ParsedPlanFile } from '../shared/plan-file/plan-file.ts';
import type { Log } from '../shared/process/log.ts';
import type { PlanFileInForce } from '../shared/process/watch-plan-file.ts';
import { type Redis, redisNow } from '../shared/redis/connections.ts';
import { contentsOf } from '../shared/store/records/plan-file-history.ts';
import type { Store } from '../shared/store/records/store.ts';

/** While the store is away. Of more plan files, the oldest are one change together. */
const waitingMax = 20;

type Deps = {
  planFile: PlanFileInForce;
  store: { audit: Pick<Store['audit'], 'notePlanFile'> };
  redis: Redis;
  log: Pick<Log, 'warn'>;
  retryMs?: number;
};

/**
 * Notes each plan file that this ingress works with in the audit trail, from the one at its start on (contract.md#r14-plan-files-in-force).
 * What the store does not take is noted later. If the process ends before, the next ingress that starts notes it.
 */
export function notePlanFiles({ planFile, store, redis, log, retryMs = 5_000 }: Deps): AsyncDisposable {
  const current = (): ParsedPlanFile => ({ planFile: planFile.current(), generation: planFile.generation() });
  let waiting = [current()];
  let known: number | undefined;
  let noting: Promise<void> | undefined;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function noteAll(): Promise<void> {
    for (let next = waiting[0]; next !== undefined && !isClosed; next = waiting[0]) {
      const { generation } = next;
      const at = new Date(await redisNow(redis));
      known = await store.audit.notePlanFile({ generation, contents: contentsOf(next.planFile), at }, known);
      waiting = waiting.filter((each) => each !== next);
    }
  }

  function start(): void {
    if (noting !== undefined || isClosed) return;
    clearTimeout(retry);
    noting = noteAll().then(
      () => {
        noting = undefined;
        if (waiting.length > 0) start();
      },
      (err: unknown) => {
        noting = undefined;
        log.warn({ err }, 'a plan file was not noted in the audit trail; trying again');
        if (!isClosed) retry = setTimeout(start, retryMs).unref();
      },
    );
  }

  planFile.onReplaced(() => {
    waiting = [...waiting, current()].slice(-waitingMax);
    start();
  });
  start();
  return {
    async [Symbol.asyncDispose]() {
      isClosed = true;
      clearTimeout(retry);
      await noting;
    },
  };
}
