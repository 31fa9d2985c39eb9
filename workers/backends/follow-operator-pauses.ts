import type { BackendPauses } from '../../shared/fleet/backend-pauses.ts';
import type { Log } from '../../shared/process/log.ts';
import { repeatWhile } from '../../shared/process/repeat-while.ts';

const lookEveryMs = 1_000;

/** Takes over the pauses that operators have set. */
export function followOperatorPauses(deps: {
  backendPauses: Pick<BackendPauses, 'read'>;
  /** The names of the backends that this process may call. */
  called: () => readonly string[];
  /** Milliseconds that are left; 0 if the backend is not paused. */
  set: (backend: string, leftMs: number) => void;
  log: Pick<Log, 'debug'>;
  /** Milliseconds, close to those of Redis's clock. */
  wallClock?: () => number;
}) {
  const { backendPauses, called, set, log, wallClock = Date.now } = deps;
  let followed = new Set<string>();

  /** Reads them now. Does not fail: without an answer of Redis, what is known stays until its end. */
  async function look(): Promise<void> {
    try {
      const names = new Set(called());
      for (const name of followed) if (!names.has(name)) set(name, 0);
      followed = names;
      // While Redis has it, a pause has not ended, whatever this clock says.
      for (const [backend, pause] of await backendPauses.read([...names]))
        set(backend, pause === null ? 0 : Math.max(2 * lookEveryMs, pause.until - wallClock()));
    } catch (error) {
      log.debug({ err: error }, 'cannot determine which backends operators have paused');
    }
  }

  const looking = repeatWhile({ everyMs: lookEveryMs, work: look, isNeeded: () => true, onFailure() {} });
  looking.begin();
  return { look, [Symbol.dispose]: looking[Symbol.dispose] };
}

export type FollowedPauses = ReturnType<typeof followOperatorPauses>;
