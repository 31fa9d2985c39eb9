import { BackendError } from './backend-error.ts';

/** The beginning of a stream, which is held back until the answer proper has begun: until then another backend can take over. */
export function createHoldBack(begun: () => boolean, charactersMax: number) {
  let held = '';
  return {
    /** Takes what an event gives. Returns what may be sent. Fails with `unreadable` if too much is held. */
    release(ready: string): string {
      const all = held + ready;
      held = begun() ? '' : all;
      if (held.length > charactersMax) {
        throw new BackendError('unreadable', `no token within ${charactersMax} characters`);
      }
      return begun() ? all : '';
    },
    held: (): string => held,
  };
}

export type HoldBack = ReturnType<typeof createHoldBack>;
