import { type AskBackend, testHealth } from '../../shared/backends/ask-backend.ts';
import { oncePerObject } from '../../shared/once-per-object.ts';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import { atMostEvery, type Check } from '../../shared/process/operations.ts';
import { createSingleFlight } from '../../shared/single-flight.ts';

const checkEveryMs = 10_000;
const testEveryMs = 100;

/** Tests of the health of backends, each as its `health` says. */
export function createBackendChecks({
  ask,
  backends,
}: {
  ask: AskBackend;
  backends: () => Readonly<Record<string, Backend>>;
}) {
  const checkOf = oncePerObject((backend: Backend) => atMostEvery(checkEveryMs, () => testHealth(ask, backend)));
  const testOf = oncePerObject((backend: Backend) =>
    atMostEvery(testEveryMs, () =>
      testHealth(ask, backend).then(
        () => true,
        () => false,
      ),
    ),
  );
  const tests = createSingleFlight<string, boolean>({
    nameOf: (name) => name,
    async fetch(name) {
      const backend = backends()[name];
      return backend === undefined || testOf(backend)();
    },
  });
  return {
    /** Checks by their names, each run at most every ten seconds. */
    of: (called: ReadonlyMap<string, Backend>): Record<string, Check> =>
      Object.fromEntries([...called].map(([name, backend]) => [`backend ${name}`, checkOf(backend)])),
    /** False if the test fails. Each backend has one at a time and at most ten a second: all that ask meanwhile get its result. */
    test: tests.join,
  };
}

export type BackendChecks = ReturnType<typeof createBackendChecks>;
