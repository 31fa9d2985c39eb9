import { type AskBackend, testHealth } from '../../shared/backends/ask-backend.ts';
import { oncePerObject } from '../../shared/once-per-object.ts';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import { atMostEvery, type Check } from '../../shared/process/operations.ts';
import { createSingleFlight } from '../../shared/single-flight.ts';

const checkEveryMs = 10_000;
const testEveryMs = 100;

/** Tests of the health of backends, each as its `health` says. */
export interface BackendChecks {
  /** Checks by their names, each run at most every ten seconds. */
  of(backends: ReadonlyMap<string, Backend>): Record<string, Check>;
  /** False if the test fails. Each backend has one at a time and at most ten a second: all that ask meanwhile get its result. */
  test(backend: string): Promise<boolean>;
}

export function createBackendChecks({
  ask,
  backends,
}: {
  ask: AskBackend;
  backends: () => Readonly<Record<string, Backend>>;
}): BackendChecks {
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
    of: (called) => Object.fromEntries([...called].map(([name, backend]) => [`backend ${name}`, checkOf(backend)])),
    test: tests.join,
  };
}
