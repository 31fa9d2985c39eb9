import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../shared/store/records/store.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { Stack } from '../stack/stack.ts';

const lookEveryMs = 50;
const drainedWithinMs = 30_000;

/** Evidence about single requests, from outside: the store, the model servers, and the first worker of the stack. */
export function createRequestEvidence(stack: Stack, store: Pick<Store, 'usage'>) {
  async function textOf(path: string): Promise<string> {
    return (await fetch(`${stack.workers[0]?.operationsUrl}${path}`)).text();
  }

  return {
    /** Its usage record, as soon as it has been drained. */
    async record(requestId: string): Promise<UsageRecord> {
      const until = performance.now() + drainedWithinMs;
      while (performance.now() < until) {
        const record = await store.usage.findUsageRecord(requestId);
        if (record !== undefined) return record;
        await sleep(lookEveryMs);
      }
      throw new Error(`no usage record of ${requestId} within ${drainedWithinMs} ms`);
    },

    /** The model servers that were called for it, in order, once per call. */
    calls(requestId: string): string[] {
      return stack.modelServers
        .flatMap(({ name, calls }) => calls().map((call) => ({ ...call, name })))
        .filter((call) => call.requestId === requestId)
        .toSorted((one, other) => one.startedAt - other.startedAt)
        .map(({ name }) => name);
    },

    /** The state of each breaker of a model, by backend. Throws if `/readyz` and `/metrics` keep disagreeing. */
    async breakers(model: string): Promise<Record<string, string>> {
      for (let looks = 1; ; looks += 1) {
        const [ready, metrics] = await Promise.all([textOf('/readyz'), textOf('/metrics')]);
        const { breakers } = JSON.parse(ready) as { breakers: { model: string; backend: string; breaker: string }[] }; // a response of the service itself
        const ofModel = breakers.filter((breaker) => breaker.model === model);
        const agrees = ofModel.every(({ backend, breaker }) =>
          metrics.includes(
            `svc_backend_breaker_state{backend="${backend}",model="${model}"} ${values.indexOf(breaker)}\n`,
          ),
        );
        if (agrees) return Object.fromEntries(ofModel.map(({ backend, breaker }) => [backend, breaker]));
        // One may have changed between the two responses.
        if (looks === 3) throw new Error(`/metrics and /readyz disagree about ${model}: ${ready}`);
      }
    },

    /** Resolves when no model server has a running call or an open connection. Rejects if one keeps them. */
    async untilNothingIsOpen(withinMs = 30_000): Promise<void> {
      const until = performance.now() + withinMs;
      while (true) {
        const running = stack.modelServers
          .flatMap((server) => server.calls())
          .filter(({ state }) => state === 'running');
        const open = await Promise.all(stack.modelServers.map((server) => server.connectionsInUse()));
        if (running.length === 0 && open.every((count) => count === 0)) return;
        if (performance.now() > until)
          throw new Error(`still open: ${open.join(', ')}; running: ${JSON.stringify(running)}`);
        await sleep(lookEveryMs);
      }
    },
  };
}

/** In the order of the metric's values. */
const values = ['closed', 'half-open', 'open'];
